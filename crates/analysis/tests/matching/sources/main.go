package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

type shape interface{ area(scale float64) float64 }
type square struct{ side float64 }

func (s square) area(scale float64) float64 { return twice(s.side) * scale }

//go:noinline
func twice[T int | float64](v T) T { return v + v }

//go:noinline
func each(names []string, f func(string) int) (sum int) {
	for _, name := range names {
		sum += f(name)
	}
	return
}

//go:noinline
func work(names []string) int {
	counts := map[string]int{}
	for _, name := range names {
		counts[strings.ToUpper(name)] += twice(len(name))
	}
	keys := make([]string, 0)
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return counts[keys[i]] < counts[keys[j]] })
	done := make(chan int)
	go func() { done <- each(keys, func(s string) int { return counts[s] * 2 }) }()
	return <-done + each(names, text("x").count)
}

type text string

//go:noinline
func (t text) count(s string) int { return strings.Count(s, string(t)) }

func main() {
	var s shape = square{2}
	defer func() { fmt.Println("done") }()
	fmt.Println(work(os.Args), s.area(3))
}
