"""A lender that needs its memory has it at once, whatever became of the borrower."""

import time

import pytest

from borrowing import borrow
from nodes import MIB, eventually

# Daemon and taker share a cgroup: the host itself, which others use, has enough.
LIMIT = 1024 * MIB
# What the daemon leaves free in a cgroup of that size; a fall of less than 64 MiB it leaves to that.
RESERVE, SLACK = LIMIT // 4, 72 * MIB
# What is lent at least before, and stays held at most after.
LENT, LEFT = 96 * MIB, 32 * MIB
# A machine that others use stops a daemon for that long.
RECALL_SECONDS_MAX = 3

STATES = {
    "works": lambda borrower: None,
    "stands still": lambda borrower: borrower.pause(),
    "is cut off": lambda borrower: borrower.host.cut_silently(),
    "is dead": lambda borrower: borrower.kill(),
}


def held(node):
    return node.status()["arena"]["held"]


def lent(cluster, join=None):
    """A cluster whose lender has lent a lot."""
    if join:
        cluster.lender.stop()
        cluster.lender.start(join=join)
    work = borrow(cluster, size=224 * MIB)
    eventually("much is lent", lambda: cluster.lender.lending()["lent"] >= LENT, 90)
    return work


@pytest.mark.parametrize("state", STATES)
def test_a_release_takes_lent_memory_at_once(pair, state):
    cluster = pair(borrower=dict(slow="1ms"))
    work = lent(cluster)
    before = held(cluster.lender)
    STATES[state](cluster.borrower)
    began = time.monotonic()
    released = cluster.lender.release(1 << 30)
    took = time.monotonic() - began
    left = held(cluster.lender)
    print(f"the borrower {state}: of {before >> 20} MiB {left >> 20} are left after {took:.3f} s: {released}")
    assert left <= LEFT
    assert took < RECALL_SECONDS_MAX
    if state == "is dead":
        cluster.borrower.start()
        work.start_again()
    recover(cluster, work)


def recover(cluster, work):
    """The borrower works again, and its disk has what it should have."""
    cluster.borrower.go_on()
    cluster.borrower.host.heal()
    work.goes_on(2)
    work.stop()
    work.read_all()


@pytest.mark.parametrize("state", ["stands still", "is cut off"])
def test_a_program_that_takes_memory_gets_it(pair, limited, state):
    group = limited(LIMIT)
    cluster = pair(borrower=dict(slow="1ms"))
    work = lent(cluster, join=group.join)
    STATES[state](cluster.borrower)
    before = held(cluster.lender)
    began = time.monotonic()
    taker = group.take(LIMIT - RESERVE - (group.used() - before) - LEFT)
    try:
        assert taker.stdout.readline() == "touched\n", f"the taker ended with {taker.wait()}"
        touched = time.monotonic() - began
        spare = lambda: LIMIT - group.used()
        eventually("the reserve is there again", lambda: spare() >= RESERVE - SLACK, RECALL_SECONDS_MAX)
        shrank = time.monotonic() - began
        assert taker.poll() is None, "the taker was killed"
        left = held(cluster.lender)
        print(f"{before >> 20} MiB became {left >> 20} within {shrank:.2f} s; touched in {touched:.2f} s")
    finally:
        taker.kill()
        taker.wait()
    recover(cluster, work)
