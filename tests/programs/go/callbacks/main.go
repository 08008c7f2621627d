// Go calls C, which calls Go: the stacks of C have no frame pointers.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer -pthread
#cgo LDFLAGS: -pthread
#include <stdint.h>
uint64_t c_one(uint64_t n);
uint64_t c_back(uint64_t n);
void c_threads(uint64_t n);
*/
import "C"

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func leaf(n uint64) uint64 {
	x := n
	for i := uint64(0); i < 2000; i++ {
		x = x*6364136223846793005 + i
	}
	return x
}

//export goBack
func goBack(n C.uint64_t) C.uint64_t {
	if os.Args[1] == "nested" {
		return C.uint64_t(calls(uint64(n)))
	}
	return C.uint64_t(leaf(uint64(n)))
}

//go:noinline
func calls(n uint64) uint64 { return uint64(C.c_one(C.uint64_t(n))) + 1 }

//go:noinline
func back(n uint64) uint64 { return uint64(C.c_back(C.uint64_t(n))) + 1 }

func main() {
	milliseconds, _ := strconv.Atoi(os.Args[2])
	until := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	for i := uint64(0); time.Now().Before(until); i++ {
		switch os.Args[1] {
		case "back", "nested":
			sink += back(i)
		case "calls":
			sink += calls(i)
		case "alone":
			sink += leaf(i)
		case "threads":
			C.c_threads(C.uint64_t(i))
		}
	}
}
