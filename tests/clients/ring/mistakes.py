#!/usr/bin/env python3
"""What a program may get wrong with a ring is told, and names no other page: mistakes.py SOCKET."""

import os
import sys
import threading

import sublet

PAGE = bytes(sublet.PAGE_BYTES)


def refuses(words, kind, verb, *arguments):
    try:
        verb(*arguments)
    except kind as error:
        assert words in str(error), f"{words!r} is not in {str(error)!r}"
        return
    raise AssertionError(f"{words}: nothing was said")


def a_full_batch(pool, ring):
    """A ring of 4 entries and 8 page slots."""
    with ring.batch() as batch:
        for count in (0, 65):
            refuses("1 to 64 pages", ValueError, batch.get_run, pool, 1, 0, count)
            refuses("1 to 64 pages", ValueError, batch.flush_run, pool, 1, 0, count)
            refuses("1 to 64 pages", ValueError, batch.put_run, pool, 1, 0, [PAGE] * count)
        refuses("object is a number", ValueError, batch.flush_object, pool, -1)
        put = batch.put_run(pool, 1, 0, [PAGE] * 8)
        refuses("as many pages as", sublet.RingError, batch.get, pool, 1, 0)
        flushes = [batch.flush_run(pool, 1, n, 2) for n in (1, 3, 5)]
        refuses("as many requests as", sublet.RingError, batch.flush_object, pool, 1)
        assert len(batch) == 1 + len(flushes), "what had no room was not added"
    assert put.answer == [True] * 8 and put.answer.replaced == [False] * 8, put.answer
    assert put.answer.refusal is None and put.answer.done_count == 8
    stored = pool.put_run(1, 0, [PAGE] * 2)
    assert stored.replaced == [True, False], "page 0 was there, page 1 was flushed"
    again = pool.put(1, 0, PAGE)
    assert again and again.replaced and again.refusal is None, again


def a_wrong_request(pool, ring):
    """It is told of when the others have their answers."""
    other = ring.create_pool()
    other.destroy()

    def together():
        with ring.batch() as batch:
            batch.flush_page(other, 1, 0)
            got.append(batch.get(pool, 1, 0))

    got = []
    pool.put(1, 0, PAGE)
    refuses("no pool with that handle", sublet.RingError, together)
    assert got[0].page == PAGE, "the others have their answers"


def a_fork(pool, ring):
    """The child is refused, whatever it asks, and the parent goes on."""
    pool.put(1, 0, PAGE)
    child = os.fork()
    if child == 0:
        try:
            for verb in (lambda: pool.get(1, 0), ring.create_pool, ring.batch().__enter__):
                refuses("forked", sublet.RingError, verb)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0, "the child was refused"
    assert pool.get(1, 0) == PAGE


def threads(ring):
    """Each finds its own pages, alone and in batches."""
    pool, wrong = ring.create_pool(keeping=True), []

    def puts_and_gets(n):
        for round in range(100):
            page = bytes([n, round]) * (sublet.PAGE_BYTES // 2)
            pool.put(n, round, page)
            with ring.batch() as batch:
                gets = [batch.get(pool, n, round), batch.get(pool, n, 0)]
            first = bytes([n, 0]) * (sublet.PAGE_BYTES // 2)
            if [get.page for get in gets] + [pool.get(n, round)] != [page, first, page]:
                wrong.append((n, round))

    all = [threading.Thread(target=puts_and_gets, args=(n,)) for n in range(4)]
    for thread in all:
        thread.start()
    for thread in all:
        thread.join()
    assert not wrong, wrong


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
        a_wrong_request(pool, ring)
        a_fork(pool, ring)
        threads(ring)
        pool.destroy()
        refuses("no pool with that handle", sublet.RingError, pool.get, 1, 0)
    with sublet.Ring(sys.argv[1], entries=4, page_slots=8) as ring:
        assert ring.shape == (4, 8), ring.shape
        a_full_batch(ring.create_pool(), ring)
    refuses("the ring is closed", ValueError, ring.create_pool)
    refuses("the ring is closed", ValueError, pool.get, 1, 0)
    ring.close()
    print("mistakes: all told")


if __name__ == "__main__":
    main()
