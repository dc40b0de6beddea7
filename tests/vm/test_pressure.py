"""Memory is needed back while guests swap into it: the arena shrinks in time, and every page is right."""

import time

import pytest

from served import PAGE, eventually
from test_swap import SWAP, swap_on

MIB = 1 << 20
# Daemon and taker share a cgroup: the host itself, which others use, has enough.
LIMIT = 1024 * MIB
# What the daemon leaves free in a cgroup of that size; a fall of less than 64 MiB it leaves to that.
RESERVE, SLACK = LIMIT // 4, 72 * MIB
# What an arena has before a program takes memory, at least, and what it is to keep then.
FULL, LEFT = 160 * MIB, 32 * MIB
# A release of dirty pages waits for the backing: so long at most, on a machine that others use.
RELEASE_SECONDS_MAX = 10


def test_memory_is_given_back_while_guests_swap(limited, served, boot, long):
    if not served.has_arena:
        pytest.skip("a stand-in has no arena to take memory from")
    group = limited(LIMIT)
    served.stop()
    served.start(join=group.join)
    names = ("one", "two")
    guests = [boot(name, 128, {"swap": served.add(name, "swap", SWAP).drive("scsi")}) for name in names]
    works = []
    for guest in guests:
        swap_on(guest)
        works.append(guest.begin("patmem 176 1000 5"))
    for work in works:
        work.wait_for("touched", 150)
    shown = [served.show(name) for name in names]
    print("pages and dirty ones:", [(disk["pages"], disk["dirty"]) for disk in shown])
    assert sum(disk["pages"] for disk in shown) * PAGE > 64 * MIB, "there is something to give back"
    for _ in range(30 if long else 3):
        take(group, served)
    give_back(served)
    for work in works:
        for _ in range(2):
            work.wait_for("verified", 300)
        assert not work.ended.is_set(), work.tail()
        work.kill()
    for name in names:
        assert served.show(name)["faults"] == 0


def take(group, served):
    """A program takes so much that little is left for the arena."""
    eventually("the arena has grown", lambda: held(served) >= FULL, 180)
    before, reached = held(served), group.reached()
    amount = LIMIT - RESERVE - (group.used() - before) - LEFT
    began = time.monotonic()
    taker = group.take(amount)
    try:
        assert taker.stdout.readline() == "touched\n", f"the taker ended with {taker.wait()}"
        took = time.monotonic() - began
        # An arena that had not shrunk would leave 128 MiB less.
        spare = lambda: LIMIT - group.used()
        eventually("the reserve is there again", lambda: spare() >= RESERVE - SLACK, RELEASE_SECONDS_MAX)
        shrank = time.monotonic() - began
        assert taker.poll() is None, "the taker was killed"
        print(
            f"{amount >> 20} MiB taken in {took:.2f} s; the arena went from {before >> 20} MiB to {held(served) >> 20} "
            f"within {shrank:.2f} s; the limit was reached {group.reached() - reached} times"
        )
    finally:
        taker.kill()
        taker.wait()


def give_back(served):
    """Releases all that there is, by hand."""
    before = held(served)
    began = time.monotonic()
    released = served.release(1 << 30)
    took = time.monotonic() - began
    eventually("the arena is empty", lambda: held(served) <= 24 * MIB, RELEASE_SECONDS_MAX)
    print(f"{before >> 20} MiB asked for: {released}, {took:.2f} s")


def held(served):
    return served.status()["arena"]["held"]
