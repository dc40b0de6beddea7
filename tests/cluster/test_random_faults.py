"""Five daemons and three etcds: clients of a disk and of rings work on one node, which borrows, whatever happens to
nodes, cables and etcds. The simulator's judges look at what the clients saw."""

import random

import pytest

from cluster import JOINED_SECONDS, answers, end, wait_for_far_reads
from history import History
from load import Load, Pace
from nodes import MIB, eventually

NAMES = "abcde"
# All are alike: a disk is larger than its node's arena, and the others have room for the rest.
CEILING = 96
SIZE = 160 * MIB
SEED = 29
# How many faults, and how long after each the next one is.
SHORT, LONG, SECONDS = 16, 240, (0.5, 3)


@pytest.mark.seconds(65)
def test_whatever_happens_no_page_is_wrong_and_the_books_balance(elected, etcd, long, folder, sublet):
    history = History(folder)
    kept = etcd(members=3)
    cluster = elected(NAMES, kept, ceiling=CEILING).wait_until_joined(seconds=60)
    borrower, pace = cluster["a"], Pace(cluster.nodes.values())
    work = Load(borrower, SIZE, history, pace, sublet).start()
    wait_for_far_reads(borrower, work)
    faults = Faults(cluster, kept, random.Random(SEED))
    for _ in range(LONG if long else SHORT):
        print(faults.happen())
        work.goes_on(faults.dice.uniform(*SECONDS), least=0)
    faults.heal()
    cluster.wait_until_joined(seconds=3 * JOINED_SECONDS)
    wait_for_far_reads(borrower, work, seconds=90)
    work.stop()
    print(f"clients and daemons took {pace.taken():.0%} of the CPU")
    cluster.wait_until_books_balance()
    end(borrower, work)
    print(history.judge())
    # The judge does look.
    assert "content: client a-disk-0 found" in history.objection("a-disk-0", an_older_version)
    assert "lost: client a-ring-0 found nothing" in history.objection("a-ring-0", a_lost_page)


def an_older_version(line):
    """What a client would have written down if an older version of a page had come back."""
    if line["kind"] == "read" and line["found"][0]:
        return {**line, "found": [line["found"][0] - 1, *line["found"][1:]]}


def a_lost_page(line):
    """What a client would have written down if a persistent page had been lost."""
    if line["kind"] == "read" and line["pool"].endswith("/persistent") and line["found"][0]:
        return {**line, "found": [None, *line["found"][1:]]}


class Faults:
    """What happens to all but the borrower, one at a time or several at once."""

    def __init__(self, cluster, etcd, dice):
        self.cluster, self.etcd, self.dice = cluster, etcd, dice
        self.cut, self.one_way = set(), set()

    def happen(self):
        """Has something happen, or ends something. Says what."""
        kinds = [self.kill, self.pause, self.pull, self.lose_one_way, self.kill_etcd]
        node = self.cluster[self.dice.choice(NAMES[1:])]
        return f"{node.name}: {self.dice.choice(kinds)(node)}"

    def kill(self, node):
        if node.process.poll() is None:
            node.kill()
            return "killed"
        node.start()
        return "started"

    def pause(self, node):
        if node.process.poll() is not None:
            return self.kill(node)
        if answers(node):
            node.pause()
            return "paused"
        node.go_on()
        return "goes on"

    def pull(self, node):
        return self._toggle("a pulled cable", self.cut, node, node.host.cut, node.host.heal)

    def lose_one_way(self, node):
        to, host = self.cluster["a"].host, node.host
        lose, send = (lambda: host.stop_sending_to(to)), (lambda: host.send_to(to))
        return self._toggle("loss of what it sends to a", self.one_way, node, lose, send)

    def kill_etcd(self, node):
        if len(self.etcd.running) < len(self.etcd.hosts):
            self.etcd.start_members()
            return "and all etcds run"
        self.etcd.kill(self.dice.choice(self.etcd.hosts))
        return "and an etcd is killed"

    def heal(self):
        for name in set(self.cut):
            self.pull(self.cluster[name])
        for name in set(self.one_way):
            self.lose_one_way(self.cluster[name])
        for node in self.cluster.nodes.values():
            if node.process.poll() is not None:
                node.start()
            elif not answers(node):
                node.go_on()
        self.etcd.start_members()
        eventually("all nodes answer", lambda: all(map(answers, self.cluster.nodes.values())), JOINED_SECONDS)

    def _toggle(self, what, names, node, begin, end):
        if node.name in names:
            names.discard(node.name)
            end()
            return f"{what} ends"
        names.add(node.name)
        begin()
        return f"{what} begins"
