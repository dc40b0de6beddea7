"""SmarTmem's usemem scenario, live, a quarter of its size or less: two guests grow, a third joins when they ask for five
steps, all end when it asks for six; policies change while they run."""

import threading
import time

import pytest

import served as served_module
from served import PAGE
from test_swap import SWAP, swap_on

MIB = 1 << 20
STEP = 24
NAMES = ("one", "two", "three")
POLICIES = ("greedy", "static-alloc", "reconf-static", "smart-alloc", "weights")
# How fast dirty pages can leave at least; contracts.md lets a tenant be over its target for excess ÷ rate + 1 s.
RATE = 64 * MIB
BLOCK = 2 * MIB
SECONDS_BETWEEN_LOOKS = 0.25


class Looker(threading.Thread):
    """Looks at the daemon's status all the time, and writes down who was over a target for too long."""

    def __init__(self, served):
        super().__init__(daemon=True)
        self.served = served
        self.ended = threading.Event()
        self.over = {}
        self.complaints = []
        self.looks = []
        self.judged = {name: 0 for name in NAMES}

    def run(self):
        while not self.ended.wait(SECONDS_BETWEEN_LOOKS):
            now = time.monotonic()
            tenants = [tenant for tenant in self.served.status()["tenants"] if tenant["name"] in NAMES]
            self.looks.append({tenant["name"]: tenant["held"] for tenant in tenants})
            for tenant in tenants:
                self._judge(tenant, now)

    def _judge(self, tenant, now):
        name, target = tenant["name"], tenant.get("target")
        self.judged[name] += target is not None
        excess = 0 if target is None else tenant["held"] - target
        if excess <= BLOCK:
            self.over.pop(name, None)
            return
        since, most = self.over.get(name, (now, 0))
        most = max(most, excess)
        self.over[name] = since, most
        if now - since > most / RATE + 1 + 2 * SECONDS_BETWEEN_LOOKS:
            self.complaints.append(f"{name}: {excess / MIB:.0f} MiB over its target for {now - since:.1f} s")

    def end(self):
        self.ended.set()
        self.join()
        assert not self.complaints, self.complaints[:5]
        assert min(self.judged.values()) > 5, f"looks at tenants with a target: {self.judged}"
        most = {name: max(look[name] for look in self.looks) // MIB for name in NAMES}
        print(f"{len(self.looks)} looks, with a target: {self.judged}; most MiB held: {most}")


@pytest.fixture
def served(folder):
    who = served_module.served(folder, ceiling_mib=96)
    yield who
    who.lose_power()


def test_three_guests_with_usemem_while_policies_change(served, boot, long):
    guests = [boot(name, 128, {"swap": served.add(name, "swap", SWAP).drive("scsi")}) for name in NAMES]
    for guest in guests:
        swap_on(guest)
    looker = Looker(served) if served.has_policies else None
    if looker:
        looker.start()
    for seed in range(10 if long else 1):
        scenario(served, guests, seed)
    if looker:
        looker.end()
        for name in NAMES:
            assert max(look[name] for look in looker.looks) >= 4 * MIB, f"{name} never held memory"
    for guest in guests:
        assert guest.is_alive()


def scenario(served, guests, seed):
    """One run; the policy changes at each step of the third guest, and before."""
    policies = iter(POLICIES * 10)

    def change():
        if served.has_policies:
            served.call("policy", "set", next(policies), "--temporary")

    change()
    line = f"usemem {STEP} {8 * STEP} 600 {seed * 10 + 1}"
    works = [guest.begin(line) for guest in guests[:2]]
    works[0].wait_for(f"at {3 * STEP}", 120)
    change()
    for work in works:
        work.wait_for(f"at {5 * STEP}", 120)
    works.append(guests[2].begin(line))
    for steps in range(2, 7):
        change()
        works[2].wait_for(f"at {steps * STEP}", 120)
    for work in works:
        assert not work.ended.is_set(), work.tail()
        work.kill()
        work.ended.wait(60)
        assert "WRONG" not in work.output, work.output
    swapped = [int(guest.run("awk '$1 == \"pswpout\" {print $2}' /proc/vmstat")) * PAGE for guest in guests]
    assert min(swapped) > 16 * MIB, f"swapped out: {swapped}"
