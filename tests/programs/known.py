"""Each function has known callers, and each recursion a known depth."""
import asyncio
import ctypes
import functools
import re
import sys
import time


def bottom(n):
    x = 1
    for i in range(2000):
        x = x * 31 + (i ^ n) & 0xFFFF
    return x


def rec(n):
    return rec(n - 1) + 1 if n else bottom(n)


def phase_rec():
    return rec(30)


def again(n):
    return sorted([n], key=keyed)[0]


def keyed(n):
    return again(n - 1) if n else bottom(n)


def phase_again():
    return again(10)


def reduced(a, b):
    return bottom(a) + b


def phase_reduce():
    return functools.reduce(reduced, [1, 2, 3, 4])


def replaced(match):
    return str(bottom(len(match.group())))


def phase_sub():
    return len(re.sub("a+", replaced, "abaabaaab"))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
def compared(a, b):
    bottom(a[0])
    return a[0] - b[0]


libc = ctypes.CDLL(None)


def phase_qsort():
    numbers = (ctypes.c_int * 4)(4, 1, 3, 2)
    libc.qsort(numbers, 4, 4, compared)
    return numbers[0]


def produced():
    for i in range(4):
        yield bottom(i)


def phase_sum():
    return sum(produced())


class Made:
    def __init__(self):
        self.x = bottom(1)

    @property
    def value(self):
        return bottom(2)

    def __getattr__(self, name):
        return bottom(3)


def phase_class():
    made = Made()
    return made.value + made.missing


async def inner():
    bottom(1)
    await asyncio.sleep(0)
    return bottom(2)


async def outer():
    return await inner()


def phase_asyncio():
    return loop.run_until_complete(outer())


def phase_lines():
    x = 0
    for i in range(2000):
        x += i
    for i in range(6000):
        x += i
    return x


loop = asyncio.new_event_loop()
PHASES = [value for name, value in sorted(globals().items()) if name.startswith("phase_")]


def main():
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for phase in PHASES:
            phase()


main()
