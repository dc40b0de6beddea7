#!/usr/bin/env python3
"""What a program may get wrong with a ring is told, and names no other page: mistakes.py SOCKET."""

import sys

import sublet

PAGE = bytes(sublet.PAGE_BYTES)


def refuses(words, kind, verb, *arguments):
    try:
        verb(*arguments)
    except kind as error:
        assert words in str(error), f"{words!r} is not in {str(error)!r}"
        return
    raise AssertionError(f"{words}: nothing was said")


def main():
    refuses("/nowhere/ring: no daemon", sublet.RingError, sublet.Ring, "/nowhere/ring")
    with sublet.Ring(sys.argv[1]) as ring:
        pool = ring.create_pool()
        for index in (-1, 1 << 32):
            refuses("index is a number", ValueError, pool.put, 1, index, PAGE)
        for object in (-1, 1 << 64):
            refuses("object is a number", ValueError, pool.put, object, 0, PAGE)
            refuses("object is a number", ValueError, pool.flush_object, object)
        assert pool.get(1, 0) is None, "no page was put"
        for count in (0, 65):
            refuses("1 to 64 pages", ValueError, pool.get_run, 1, 0, count)
            refuses("1 to 64 pages", ValueError, pool.put_run, 1, 0, [PAGE] * count)
        refuses("a page has 4096 bytes", ValueError, pool.put, 1, 0, b"short")
        refuses("ends at index", sublet.RingError, pool.get_run, 1, (1 << 32) - 1, 2)
        assert pool.put((1 << 64) - 1, (1 << 32) - 1, PAGE), "the last page there can be"
        pool.destroy()
        refuses("no pool with that handle", sublet.RingError, pool.get, 1, 0)
    refuses("the ring is closed", ValueError, ring.create_pool)
    refuses("the ring is closed", ValueError, pool.get, 1, 0)
    ring.close()
    print("mistakes: all told")


if __name__ == "__main__":
    main()
