"""The host needs its memory back while guests swap into it: the arena shrinks in time, and every page is right."""

import time

import pytest

from served import PAGE, eventually
from test_swap import SWAP, swap_on

MIB = 1 << 20
# A release of dirty pages waits for the backing: so long at most, on a machine that others use.
RELEASE_SECONDS_MAX = 10


def test_memory_is_given_back_while_guests_swap(served, boot, long):
    if not served.has_arena:
        pytest.skip("a stand-in has no arena to take memory from")
    names = ("one", "two")
    guests = [boot(name, 128, {"swap": served.add(name, "swap", SWAP).drive("nvme")}) for name in names]
    works = []
    for guest in guests:
        swap_on(guest, "nvme")
        works.append(guest.begin("patmem 176 1000 5"))
    for work in works:
        work.wait_for("touched", 150)
    shown = [served.show(name) for name in names]
    print("pages and dirty ones:", [(disk["pages"], disk["dirty"]) for disk in shown])
    assert sum(disk["pages"] for disk in shown) * PAGE > 64 * MIB, "there is something to give back"
    for _ in range(30 if long else 3):
        give_back(served, 64 * MIB)
        time.sleep(1)
    give_back(served, 1 << 30)
    for work in works:
        for _ in range(2):
            work.wait_for("verified", 300)
        assert not work.ended.is_set(), work.tail()
        work.kill()
    for name in names:
        assert served.show(name)["faults"] == 0


def give_back(served, amount):
    """Releases so much, or all that there is."""
    held = served.status()["arena"]["held"]
    began = time.monotonic()
    released = served.release(amount)
    took = time.monotonic() - began
    wanted = max(held - amount, 24 * MIB)
    eventually("the arena shrinks", lambda: served.status()["arena"]["held"] <= wanted, RELEASE_SECONDS_MAX)
    print(f"{amount >> 20} MiB of {held >> 20} asked for: {released}, {took:.2f} s")
