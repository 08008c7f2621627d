#!/usr/bin/env python3
"""A service that does the same things again and again: requests parsed, sorted, packed and answered by four processes.

usage: service.py SECONDS
"""

import json
import multiprocessing
import random
import sys
import time
import zlib


def serve(seconds, seed):
    numbers = random.Random(seed)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        request = json.dumps([{"id": n, "name": f"item {n}", "price": numbers.random()} for n in range(200)])
        items = sorted(json.loads(request), key=lambda item: item["price"])
        zlib.decompress(zlib.compress(json.dumps(items).encode()))
        time.sleep(0.002)


if __name__ == "__main__":
    workers = [multiprocessing.Process(target=serve, args=(float(sys.argv[1]), n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
