"""A service with four kinds of work (docs/PYTHON.md), and clients that ask it: service.py PORT, and service.py PORT clients SECONDS.

/prices computes in Python, /digest in a C extension without the lock of the interpreter, /partner waits for a slow server, /journal waits for a lock.
"""
import hashlib
import http.server
import sys
import threading
import time
import urllib.request

JOURNAL = threading.Lock()


def discount(price, days):
    for day in range(days):
        price = price * 997 // 1000 + day % 3
    return price


def prices():
    return str(sum(discount(price, 300) for price in range(100, 400)))


def digest():
    return hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 30000).hex()


def partner():
    time.sleep(0.03)
    return "answered"


def append_to_journal():
    with JOURNAL:
        time.sleep(0.02)
        return "written"


WORK = {"/prices": prices, "/digest": digest, "/partner": partner, "/journal": append_to_journal}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = WORK[self.path]().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def ask(port, path, end):
    while time.monotonic() < end:
        urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path)).read()


port = int(sys.argv[1])
if sys.argv[2:3] == ["clients"]:
    end = time.monotonic() + float(sys.argv[3])
    paths = list(WORK) * 2
    threads = [threading.Thread(target=ask, args=(port, path, end)) for path in paths]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
else:
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
