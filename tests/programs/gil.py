"""A thread computes and holds the lock of the interpreter; another one waits for it, a third one for a lock of the program."""
import sys
import threading
import time

END = time.monotonic() + float(sys.argv[1])
LOCK = threading.Lock()


def computes():
    n = 0
    while time.monotonic() < END:
        n = (n * 31 + 7) & 0xFFFF


def wants_to_compute():
    n = 0
    while time.monotonic() < END:
        time.sleep(0.001)
        n = (n * 31 + 7) & 0xFFFF


def holds_the_lock():
    while time.monotonic() < END:
        with LOCK:
            time.sleep(0.01)
        time.sleep(0.001)


def waits_for_the_lock():
    while time.monotonic() < END:
        with LOCK:
            pass


threads = [threading.Thread(target=it) for it in (computes, wants_to_compute, holds_the_lock, waits_for_the_lock)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
