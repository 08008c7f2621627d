"""Threads, a forked child, and an interpreter in another one; each function has known callers."""
import os
import sys
import threading
import time

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

SECONDS = float(sys.argv[1])

INNER = """
import time

def inner_bottom():
    x = 1
    for i in range(20000):
        x = x * 31 + i & 0xFFFF
    return x

def inner_top():
    return inner_bottom()

end = time.monotonic() + %f
while time.monotonic() < end:
    inner_top()
"""


def spin():
    end = time.monotonic() + SECONDS
    x = 1
    while time.monotonic() < end:
        x = x * 31 + 7 & 0xFFFF


def of_child():
    spin()


def of_thread():
    spin()


def outer_run():
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    run(interpreters.create(), INNER % SECONDS)


child = os.fork()
if child == 0:
    of_child()
    os._exit(0)
os.waitpid(child, 0)
thread = threading.Thread(target=of_thread)
thread.start()
thread.join()
outer_run()
