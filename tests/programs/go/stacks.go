// Stacks that are known by construction: each part is a chain of functions that call each other and nobody else.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

var sink uint64
var until time.Time

// Tells whether time is up, so seldom that it costs nothing.
//
//go:noinline
func over() bool { return time.Now().After(until) }

//go:noinline
func leaf(n uint64) uint64 {
	x := n
	for i := uint64(0); i < 2000; i++ {
		x = x*6364136223846793005 + i
	}
	return x
}

//go:noinline
func deep(n int) uint64 {
	if n == 0 {
		return leaf(uint64(n))
	}
	return deep(n-1) + 1
}

//go:noinline
func three(n uint64) uint64 { return leaf(n) + deep(int(n%7)) }

//go:noinline
func two(f func(uint64) uint64, n uint64) uint64 {
	var room [300]byte
	room[n%300] = byte(n)
	defer func() { sink += uint64(room[n%300]) }()
	return f(n) + 1
}

//go:noinline
func one(n uint64) uint64 {
	return two(func(m uint64) uint64 { return three(m) }, n)
}

func chain() {
	for !over() {
		for i := uint64(0); i < 100; i++ {
			sink += one(i)
		}
	}
}

// The runtime's own stacks: goroutines are made and end, and stacks grow.
//
//go:noinline
func grows(n int) uint64 {
	var room [256]byte
	room[n%256] = 1
	if n == 0 {
		return uint64(room[0])
	}
	return grows(n-1) + uint64(room[n%256])
}

func spawns() {
	done := make(chan uint64, 64)
	for !over() {
		for i := 0; i < 64; i++ {
			go func() { done <- grows(20) }()
		}
		for i := 0; i < 64; i++ {
			sink += <-done
		}
	}
}

type node struct {
	left, right *node
	data        [4]uint64
}

//go:noinline
func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{left: tree(depth - 1), right: tree(depth - 1)}
}

// Garbage, write barriers, maps.
func garbage() {
	keep := make([]*node, 16)
	words := map[string]int{}
	for i := 0; !over(); i++ {
		keep[i%16] = tree(10)
		keep[i%16].left, keep[i%16].right = keep[i%16].right, keep[i%16].left
		words[strconv.Itoa(i)] += i
		if len(words) > 10000 {
			words = map[string]int{}
		}
	}
	runtime.KeepAlive(keep)
}

// The time is asked for on the stack of the thread, and assembly may use the frame pointer for something else.
func clocks() {
	for !over() {
		for i := 0; i < 1000; i++ {
			sink += uint64(time.Now().Nanosecond())
		}
		var data [4096]byte
		sum := sha256.Sum256(data[:])
		sink += uint64(sum[0])
	}
}

func main() {
	milliseconds, _ := strconv.Atoi(os.Args[2])
	until = time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	parts := map[string]func(){"chain": chain, "spawns": spawns, "garbage": garbage, "clocks": clocks}
	parts[os.Args[1]]()
	fmt.Fprintln(os.Stderr, sink)
}
