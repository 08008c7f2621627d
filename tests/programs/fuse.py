"""Serves one file by FUSE, and stops answering when it is told to.

    fuse.py FOLDER FILE [USER|unopened|unread|unwritten]

It mounts FOLDER, prints "ready", and serves FOLDER/program with the bytes of FILE until it gets SIGTERM. With USER only that user may open the
file: not even root may, as with each FUSE mount without `allow_other`. With `unopened` it answers nobody who opens the file, with
`unread` nobody who reads it, with `unwritten` nobody who writes to it, which all may then. After SIGUSR1 it answers nothing any more.

The kernel remembers nothing of the file, so that each look at it asks the server.

Source: Linux include/uapi/linux/fuse.h, version 7.31
"""
import ctypes
import os
import signal
import struct
import sys
import time

WRITE, LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 16, 1, 2, 3, 14, 15, 17, 18, 25, 26
INTERRUPT, BATCH_FORGET = 36, 42
NO_ENTRY, NO_CALL = -2, -38
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)
folder, content = os.fsencode(sys.argv[1]), open(sys.argv[2], "rb").read()
device = os.open("/dev/fuse", os.O_RDWR)
mode = sys.argv[3] if len(sys.argv) > 3 else "0"
unanswered = {"unopened": OPEN, "unread": READ, "unwritten": WRITE}.get(mode)
user = 0 if unanswered else int(mode)
others = "" if user else ",allow_other"
options = f"fd={device},rootmode=40000,user_id={user},group_id={user}{others}".encode()
if libc.mount(b"icecore", folder, b"fuse", 6, options):
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
answers = True


def end(*_):
    libc.umount2(folder, MNT_DETACH)
    os._exit(0)


def fall_silent(*_):
    global answers
    answers = False


signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR1, fall_silent)
print("ready", flush=True)


def attributes(node):
    size, mode = (0, 0o40755) if node == 1 else (len(content), 0o100777 if unanswered == WRITE else 0o100755)
    return struct.pack("<6Q10I", node, size, (size + 511) // 512, 1, 1, 1, 0, 0, 0, mode, 1, user, user, 0, 4096, 0)


def answer(opcode, node, body):
    """Returns the answer to a request: bytes, or a number for an error."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 1 << 16, 0, 16, 12, 1 << 16, 1, 16, 0, *[0] * 8)
    if opcode == LOOKUP:
        if body.rstrip(b"\0") != b"program":
            return NO_ENTRY
        return struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 1, 0, 0)
    if opcode == STATFS:
        return struct.pack("<5Q10I", 1, 0, 0, 1, 0, 4096, 255, 4096, *[0] * 7)
    if opcode == READ:
        offset, size = struct.unpack_from("<QI", body, 8)
        return content[offset : offset + size]
    return b"" if opcode in (RELEASE, FLUSH) else NO_CALL


while True:
    try:
        request = os.read(device, 1 << 18)
    except InterruptedError:
        continue
    except OSError:
        end()
    while not answers:
        time.sleep(60)
    length, opcode, unique, node = struct.unpack_from("<2I2Q", request)
    if opcode in (FORGET, BATCH_FORGET, INTERRUPT, unanswered):
        continue
    reply = answer(opcode, node, request[40:length])
    error, data = (reply, b"") if isinstance(reply, int) else (0, reply)
    os.write(device, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
