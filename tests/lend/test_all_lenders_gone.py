"""All lenders are killed at once: what was written to disks is there, and so is every persistent page of a ring."""

import time

from borrowing import borrow, end
from nodes import NOTICED_SECONDS, eventually

OBJECT = 7
PERSISTENT_PAGES, EPHEMERAL_PAGES = 1024, 8192


def page(pool, index):
    return (f"page {index} of the {pool} pool ".encode() * 200)[:4096]


def put_all(pool, name, pages):
    """Puts pages, 64 at a time, as fast as evicted ones go to lenders; which of them are stored."""
    stored = set()
    for first in range(0, pages, 64):
        time.sleep(0.01)
        run = pool.put_run(OBJECT, first, [page(name, first + n) for n in range(64)])
        stored |= {first + n for n, is_stored in enumerate(run) if is_stored}
    return stored


def get_all(pool, name, pages):
    """Gets pages; which of them are there. Fails at a wrong one."""
    there = set()
    for first in range(0, pages, 64):
        for n, got in enumerate(pool.get_run(OBJECT, first, 64)):
            if got is not None:
                assert got == page(name, first + n), f"page {first + n} of the {name} pool is wrong"
                there.add(first + n)
    return there


def test_all_lenders_are_killed_at_once(pair, sublet):
    cluster = pair(lenders=2)
    borrower = cluster.borrower
    with sublet.Ring(borrower.folder / "ring.sock") as ring:
        kept, passing = ring.create_pool(persistent=True), ring.create_pool(keeping=True)
        stored = put_all(kept, "persistent", PERSISTENT_PAGES)
        assert len(stored) > PERSISTENT_PAGES / 2
        work = borrow(cluster)
        put_all(passing, "ephemeral", EPHEMERAL_PAGES)
        before = borrower.far_hits()
        found = get_all(passing, "ephemeral", EPHEMERAL_PAGES)
        eventually("both lend", lambda: all(borrower.peer(name)["borrowed"] for name in "bc"), 60)
        for lender in cluster.lenders:
            lender.kill()
        # Whoever asks now, asks the dead.
        assert get_all(kept, "persistent", PERSISTENT_PAGES) == stored
        left = get_all(passing, "ephemeral", EPHEMERAL_PAGES)
        assert len(left) < len(found), "some pages of the ring were at lenders alone"
        gone = lambda: not any(borrower.is_up_with(name) for name in "bc")
        eventually("both are away", gone, NOTICED_SECONDS)
        work.goes_on(2)
        assert get_all(kept, "persistent", PERSISTENT_PAGES) == stored
        get_all(passing, "ephemeral", EPHEMERAL_PAGES)
        end(cluster, work)
        print(
            f"{len(stored)} persistent pages; of {EPHEMERAL_PAGES} others {len(found)} were there before the deaths "
            f"({before} far hits until then), {len(left)} after"
        )
