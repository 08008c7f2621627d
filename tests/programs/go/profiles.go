// Writes profiles of itself as Go's runtime does: of CPU time, and of memory. Usage: profiles CPU HEAP
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

var kept [][]byte

func keep(count int) {
	for i := 0; i < count; i++ {
		kept = append(kept, make([]byte, 64<<10))
	}
}

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func spin(duration time.Duration) (sum int) {
	for begin := time.Now(); time.Since(begin) < duration; {
		sum += fib(20)
	}
	return sum
}

func created(path string) *os.File {
	file, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	return file
}

func main() {
	runtime.MemProfileRate = 4096
	cpu := created(os.Args[1])
	if err := pprof.StartCPUProfile(cpu); err != nil {
		panic(err)
	}
	done := make(chan int)
	go func() { done <- spin(400 * time.Millisecond) }()
	keep(200)
	<-done
	pprof.StopCPUProfile()
	cpu.Close()
	runtime.GC()
	heap := created(os.Args[2])
	if err := pprof.WriteHeapProfile(heap); err != nil {
		panic(err)
	}
	heap.Close()
}
