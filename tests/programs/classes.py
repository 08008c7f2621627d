"""Compiles two classes in turn, whose methods have the same name, file and first line, at the same memory."""
import sys
import time

A = """
class Alpha:
    def run(self): return (
        of_alpha())
"""
B = """
class Gamma:
    def run(self): return (



        of_gamma())
"""


def burn():
    n = 0
    for i in range(3000):
        n = n * 31 + i & 0xFFFF


def of_alpha():
    burn()


def of_gamma():
    burn()


def run(text, name):
    space = {"of_alpha": of_alpha, "of_gamma": of_gamma}
    exec(text, space)
    space[name]().run()


def go_alpha():
    run(A, "Alpha")


def go_gamma():
    run(B, "Gamma")


end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    go_alpha()
    go_gamma()
