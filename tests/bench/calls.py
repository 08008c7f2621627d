"""Tells from the bytes of a program whether a return address can be one: what stands in front of it, and whom that calls."""

import bisect
import functools
import struct
from pathlib import Path


class Elf:
    """Segments of a 64-bit file, and where its functions begin by `.eh_frame_hdr`."""

    def __init__(self, path):
        self.bytes = Path(path).read_bytes()
        if self.bytes[:5] != b"\x7fELF\x02":
            raise ValueError("no 64-bit ELF file")
        table, size, count = struct.unpack_from("<Q", self.bytes, 32)[0], *struct.unpack_from("<HH", self.bytes, 54)
        headers = [struct.unpack_from("<IIQQQQ", self.bytes, table + size * i) for i in range(count)]
        self.segments = [(off, address, length) for kind, _, off, address, _, length in headers if kind == 1]
        self.starts = []
        for kind, _, off, address, _, _ in headers:
            # PT_GNU_EH_FRAME with the table that linkers write: pairs of 32-bit offsets from the section, sorted.
            if kind == 0x6474E550 and self.bytes[off + 1:off + 4] == b"\x1b\x03\x3b":
                rows = struct.unpack_from("<I", self.bytes, off + 8)[0]
                pairs = struct.unpack_from(f"<{2 * rows}i", self.bytes, off + 12)
                self.starts = [address + start for start in pairs[::2]]

    def address(self, offset):
        """The address of an offset in the file."""
        return next((offset - off + at for off, at, length in self.segments if off <= offset < off + length), None)

    def offset(self, address):
        """The offset of an address."""
        return next((address - at + off for off, at, length in self.segments if at <= address < at + length), None)

    def start(self, address):
        """Where the function begins that holds an address."""
        position = bisect.bisect_right(self.starts, address)
        return self.starts[position - 1] if position else None


@functools.cache
def elf(path):
    """The file of an image; `None` if it cannot be read."""
    try:
        return Elf(path)
    except (OSError, ValueError, struct.error, TypeError):
        return None


def is_stub(code):
    """Tells whether bytes jump to where a table says, as stubs of the linker do."""
    code = code.removeprefix(b"\xf3\x0f\x1e\xfa").removeprefix(b"\xf2")
    return code[:2] == b"\xff\x25"


def jumps_on(file, function, wanted):
    """Tells whether a function that is called ends with a jump to the wanted one, which is in another file if it is `None`."""
    position = bisect.bisect_right(file.starts, function)
    end = file.starts[position] if position < len(file.starts) else function + 4096
    at = file.offset(function)
    body = file.bytes[at:at + min(end - function, 1 << 16)]
    for place, byte in enumerate(body):
        if byte == 0xE9 and place + 5 <= len(body):
            target = function + place + 5 + struct.unpack_from("<i", body, place + 1)[0]
            to = file.offset(target)
            if to is not None and (is_stub(file.bytes[to:to + 16]) if wanted is None else file.start(wanted) == target):
                return "calls it"
        if byte == 0xFF and place + 2 <= len(body) and (body[place + 1] >> 3 & 7 == 4):
            return "may call it"
    return "calls another"


def call(caller, callee):
    """What stands in front of a return address: (offset, image), with the frame that it is said to have called.

    `calls it`: a call of the function of the callee, or of one that jumps on to it. `may call it`: through a register, memory or a stub
    of the linker, or of a function that jumps to where a register says. `no call`: it can be no return address.
    """
    file = elf(caller[1])
    if file is None:
        return "no file"
    code = file.bytes[max(caller[0] - 7, 0):caller[0]]
    address = file.address(caller[0] - 1)
    if address is None or len(code) < 7:
        return "no call"
    if code[-5] == 0xE8:
        target = address + 1 + struct.unpack("<i", code[-4:])[0]
        at = file.offset(target)
        own = file.address(callee[0]) if callee[1] == caller[1] else None
        if own is not None and file.start(own) == file.start(target):
            return "calls it"
        if at is not None:
            return "may call it" if is_stub(file.bytes[at:at + 16]) else jumps_on(file, target, own)
    for length in range(2, 8):
        if code[-length] == 0xFF and code[1 - length] >> 3 & 7 == 2:
            return "may call it"
    return "no call"
