"""Pages that say of themselves whose they are, which, and which version. No two are alike, and none can be packed."""

import random
import struct
import zlib

PAGE = 4096
MAGIC = b"stamped\0"
# What it is, its pool, its number there, and its version.
HEAD = struct.Struct("<8s32sQQ")
NOISE = random.Random(29).randbytes((1 << 16) + PAGE)


def page(pool, number, version):
    """The bytes of a page."""
    head = HEAD.pack(MAGIC, pool.encode(), number, version)
    at = zlib.crc32(head) & 0xFFFF
    return head + NOISE[at : at + PAGE - HEAD.size]


def said(pool, number, data):
    """What a page says that was found in place of this one, as a history has it."""
    if data is None:
        return None
    magic, name, other, version = HEAD.unpack_from(data)
    name = name.rstrip(b"\0").decode(errors="replace")
    if magic != MAGIC or data != page(name, other, version):
        return "damaged"
    return version if (name, other) == (pool, number) else {"pool": name, "page": other, "version": version}
