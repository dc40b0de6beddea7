#!/usr/bin/env python3
"""Stores pages with a daemon and fetches them again: ring.py SOCKET."""

import sys

import sublet

# Pages of the batch: as many as a read-ahead of 128 KiB.
PAGES = 32
OBJECT = 7


def filled(byte):
    return bytes([byte]) * sublet.PAGE_BYTES


def alone(pool):
    """One page there and back. An ephemeral pool's hit takes the page."""
    print("put:", "stored" if pool.put(OBJECT, 0, filled(42)) else "refused")
    page = pool.get(OBJECT, 0)
    print("get:", "miss" if page is None else f"hit, its first byte is {page[0]}")
    print("get again:", "miss" if pool.get(OBJECT, 0) is None else "hit")


def together(ring, pool):
    """Many pages in one message."""
    with ring.batch() as batch:
        for index in range(PAGES):
            batch.put(pool, OBJECT, index, filled(index))
    with ring.batch() as batch:
        gets = [batch.get(pool, OBJECT, index) for index in range(PAGES)]
    hits = [(index, get.page) for index, get in enumerate(gets) if get.page is not None]
    assert all(page == filled(index) for index, page in hits), "not what was put"
    print(f"batch: {len(hits)} of {PAGES} pages came back")


def a_run(pool):
    """Pages at indices that follow each other, in one request."""
    stored = pool.put_run(OBJECT, 100, [filled(1), filled(2), filled(3)])
    pool.flush_page(OBJECT, 101)
    pages = pool.get_run(OBJECT, 100, 3)
    assert pages[1] is None, "it was flushed"
    print(f"run: {sum(stored)} stored, {sum(page is not None for page in pages)} came back")


def runs_together(ring, pool):
    """Runs, and what forgets them, in one message."""
    with ring.batch() as batch:
        put = batch.put_run(pool, OBJECT, 200, [filled(5)] * 4)
        batch.flush_run(pool, OBJECT, 201, 2)
        get = batch.get_run(pool, OBJECT, 200, 4)
        batch.flush_object(pool, OBJECT)
    there = [n for n, page in enumerate(get.answer) if page is not None]
    print(f"batch of runs: {put.answer.done_count} stored, {there} came back")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: ring.py SOCKET")
    try:
        with sublet.Ring(sys.argv[1]) as ring:
            pool = ring.create_pool()
            alone(pool)
            together(ring, pool)
            a_run(pool)
            runs_together(ring, pool)
            pool.flush_object(OBJECT)
            pool.destroy()
    except sublet.RingError as error:
        sys.exit(f"ring.py: {error}")


if __name__ == "__main__":
    main()
