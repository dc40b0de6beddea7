"""Connections come and are cut at any point, and daemons come and go: nothing is left of them."""

import random
import socket
import ssl
import time

from borrowing import borrow, far_reads
from hostile import call, hello, page_hello
from nodes import FORGOTTEN_SECONDS, MIB, PORT, NodeSetting, eventually, wait_until_up

CYCLES, CYCLES_LONG = 1_000, 10_000
WARM_UP = 100
RESTARTS, RESTARTS_LONG = 4, 40
# Caches and tables with a bound grow until they are full.
MEMORY_GROWTH_MAX = 4 * MIB


def cycle(host, node, files, dice):
    """One life of a member: TLS, a hello, connections for pages; each step may be the last, and may be cut short."""
    pages = []
    try:
        if dice.random() < 0.1:
            # Cut within the handshake.
            raw = host.connect(node.host.address, PORT)
            raw.sendall(b"\x16\x03\x01\x02\x00\x01"[: dice.randrange(7)])
            return raw.close()
        control = call(host, node, files)
    except (OSError, ssl.SSLError, ValueError):
        return
    try:
        greeting = hello("a", session=dice.randrange(1, 1 << 40))
        count = dice.choice([0, dice.randrange(len(greeting)), len(greeting), len(greeting)])
        control.sendall(greeting[:count])
        if dice.random() < 0.5:
            control.settimeout(0.05)
            control.recv(1 << 16)
        for number in range(dice.choice([0, 0, 1, 3])):
            pages.append(host.connect(node.host.address, PORT))
            opening = page_hello(dice.randrange(1, 5), number)
            pages[-1].sendall(opening[: dice.randrange(1, len(opening) + 1)])
        if count == len(greeting) and dice.random() < 0.4:
            control.sendall(b'{"kind":"borrow","blocks":4}\n')
    except (OSError, ssl.SSLError, socket.timeout):
        pass
    for each in [control, *pages]:
        if dice.random() < 0.5:
            # The kernel answers with a reset instead of an end.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        each.close()


def test_cut_connections_leave_nothing(network, nodes, authority, long):
    a, b = network.add("a"), network.add("b")
    files = authority.issue("a")
    node = nodes(b, NodeSetting(members={"a": f"{a.address}:{PORT}"}, ceiling=256))
    fresh = node.census()
    dice = random.Random(1)
    for _ in range(WARM_UP):
        cycle(a, node, files, dice)
    settled(node, fresh)
    before = node.census()
    began = time.monotonic()
    cycles = CYCLES_LONG if long else CYCLES
    for _ in range(cycles):
        cycle(a, node, files, dice)
    took = time.monotonic() - began
    settled(node, fresh)
    after = node.census()
    sessions = node.peer("a")["counters"]["sessions"]
    print(f"{cycles} cycles in {took:.1f} s, {sessions} sessions: {before} became {after}")
    assert after["memory"] < before["memory"] + MEMORY_GROWTH_MAX
    assert sessions > cycles / 4, "most cycles come as far as a session"


def settled(node, fresh):
    """Waits until nothing is lent, nobody is connected, and the node has what it had when it was fresh."""
    eventually("nothing is lent", lambda: node.lending()["lent"] == 0, FORGOTTEN_SECONDS)
    eventually("nobody is connected", lambda: not node.is_up_with("a"), FORGOTTEN_SECONDS)
    eventually("descriptors and threads are as before", lambda: is_as(fresh, node.census()), 30)


def is_as(before, now):
    return all(now[what] <= before[what] for what in ("descriptors", "threads"))


def test_borrowers_that_are_killed_leave_nothing(pair, long):
    cluster = pair(borrower=dict(slow="500us"))
    wait_until_up(cluster.borrower, "b")
    baseline = None
    for number in range(RESTARTS_LONG if long else RESTARTS):
        if number == 0:
            work = borrow(cluster)
        else:
            # A new daemon's disk has all that was acknowledged before the last one died.
            work.start_again()
            far_reads(cluster, work)
        cluster.borrower.kill()
        # Its threads' connections have ended with it.
        eventually("the lender has seen it", lambda: not cluster.lender.is_up_with("a"), 15)
        now = cluster.lender.census()
        print(f"after death {number + 1}: {now}, {cluster.lender.lending()['lent'] >> 20} MiB are still lent")
        baseline = baseline or now
        assert is_as({**baseline, "descriptors": baseline["descriptors"] + 1}, now)
        cluster.borrower.start()
        wait_until_up(cluster.borrower, "b")
    cluster.borrower.kill()
    eventually("nothing is lent", lambda: cluster.lender.lending()["lent"] == 0, FORGOTTEN_SECONDS)
    assert cluster.lender.census()["memory"] < baseline["memory"] + MEMORY_GROWTH_MAX
