"""Throws code away whose memory is used again at once, by other strings or by code of the same name and line."""
import sys
import time
import types

SOURCE = """
def base():
    x = 1
    for i in range(4000):
        x = x * 31 + i & 0xFFFF
    return x
"""
space = {}
exec(compile(SOURCE, "base.py", "exec"), space)
base = space["base"].__code__


def batch(n):
    # Before 3.11 functions have no qualified name.
    key = "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    code = [base.replace(**{"co_name": "real", key: "real.%09d" % (n + i)}) for i in range(60)]
    for one in code:
        types.FunctionType(one, {"__builtins__": __builtins__})()


def filler(n):
    return ["fake.%09d" % i for i in range(n, n + 3000)]


def run(number):
    body = "x = 0\nfor i in range(9000):\n    x += i ^ %d\n" % number
    exec(compile(body, "file_%d.py" % number, "exec"), {})


def first():
    run(11111)


def second():
    run(22222)


def spin():
    x = 0
    for i in range(300000):
        x += i


end = time.monotonic() + float(sys.argv[1])
n = 100000000
while time.monotonic() < end:
    n += 10000
    batch(n)
    kept = filler(n)
    spin()
    del kept
    for i in range(5):
        first()
        second()
