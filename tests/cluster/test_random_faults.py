"""Five daemons and three etcds: one node works and borrows, whatever happens to nodes, cables and etcds."""

import random

from cluster import JOINED_SECONDS, answers, end, wait_for_far_reads, work_on
from nodes import MIB, eventually

NAMES = "abcde"
# All are alike: a disk is larger than its node's arena, and the others have room for the rest.
CEILING = 96
SIZE = 160 * MIB
SEED = 29


def start(elected, etcd):
    kept = etcd(members=3)
    return elected(NAMES, kept, ceiling=CEILING).wait_until_joined(seconds=60), kept


def test_whatever_happens_no_byte_is_wrong_and_the_books_balance(elected, etcd, long):
    cluster, kept = start(elected, etcd)
    borrower, work = cluster["a"], work_on(cluster["a"], size=SIZE)
    wait_for_far_reads(borrower, work)
    faults = Faults(cluster, kept, random.Random(SEED))
    for _ in range(240 if long else 16):
        print(faults.happen())
        work.goes_on(faults.dice.uniform(1, 4), least=0)
    faults.heal()
    cluster.wait_until_joined(seconds=3 * JOINED_SECONDS)
    wait_for_far_reads(borrower, work, seconds=90)
    end(borrower, work)
    cluster.wait_until_books_balance()


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
