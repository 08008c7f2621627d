"""Compiles two functions again and again: their code objects lie where those of the last round did."""
import sys
import time

SOURCE = """
def round_%d_leaf():
    x = 1
    for i in range(20000):
        x = x * 31 + i & 0xFFFF
    return x

def round_%d_top():
    return round_%d_leaf()

round_%d_top()
"""

end = time.monotonic() + float(sys.argv[1])
number = 0
while time.monotonic() < end:
    exec(SOURCE % ((number,) * 4), {})
    number += 1
