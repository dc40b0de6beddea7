"""A cluster of daemons: what each says of it, and loads that borrow."""

import json
import pathlib
import time

from known_disk import KnownDisk, content
from nodes import MIB, PORT, NodeSetting, add_disk, eventually

# Ceilings of arenas, in MiB.
BORROWER, LENDER = 32, 256
SIZE = 80 * MIB
FAR_HITS = 500
# docs/cluster.md: a leader that is silent for so long counts as none.
SILENT_SECONDS = 15
# docs/cluster.md: so long nobody leads at most, if etcd's leader died, too.
ELECTION_SECONDS = 9
# docs/cluster.md: so long after etcd was lost nodes take it that nobody leads: two thirds of a lease of five seconds.
LEADERLESS_SECONDS = 3.4
# What a machine that others use adds to such a time.
HICCUP_SECONDS = 6
# Until a cluster that was started knows of itself.
JOINED_SECONDS = 30


class Cluster:
    """Daemons by name. The first one's arena is small, so that what works on its disk borrows of the others."""

    def __init__(self, nodes):
        self.nodes = nodes

    @classmethod
    def named(cls, network, nodes, names, leader, **how):
        hosts = {name: network.add(name) for name in names}
        addresses = {name: f"{host.address}:{PORT}" for name, host in hosts.items()}

        def others(name):
            return {other: address for other, address in addresses.items() if other != name}

        def setting(name):
            ceiling = BORROWER if name == names[0] else LENDER
            usual = dict(members=others(name), ceiling=ceiling, borrow=256, peers=(f'leader = "{leader}"',))
            return NodeSetting(**{**usual, **how})

        return cls({name: nodes(host, setting(name)) for name, host in hosts.items()})

    @classmethod
    def elected(cls, network, nodes, names, etcd, **how):
        """The first of several nodes starts when another one leads already."""
        first, *rest = names
        setting = dict(members={}, peers=etcd.settings())

        def start(name, ceiling):
            return nodes(network.add(name), NodeSetting(**{"ceiling": ceiling, "borrow": 256, **setting, **how}))

        others = {name: start(name, LENDER) for name in rest}
        if others:
            eventually("one of them leads", lambda: cls(others).leader(), JOINED_SECONDS)
        return cls({first: start(first, BORROWER), **others})

    def __getitem__(self, name):
        return self.nodes[name]

    def wait_until_joined(self, names=None, seconds=JOINED_SECONDS):
        """Waits until these nodes, or all, follow one leader and all see each other report."""
        names = sorted(names or self.nodes)
        try:
            eventually(f"{names} are one cluster", lambda: self.is_one(names), seconds)
        except AssertionError as error:
            told = "\n".join(self.nodes[name].call("cluster", "status") for name in names)
            raise AssertionError(f"{error}\n{told}") from None
        return self

    def is_one(self, names):
        told = [told_by(self.nodes[name]) for name in names]
        leaders = {each["leader"] for each in told}
        return (
            len(leaders) == 1
            and leaders <= set(names)
            and len({each["term"] for each in told}) == 1
            and sum(each["leads_here"] for each in told) == 1
            and all(names == active(each) for each in told)
        )

    def leader(self):
        """The node that says that it leads, if exactly one does."""
        leading = [node for node in self.nodes.values() if answers(node) and told_by(node)["leads_here"]]
        return leading[0] if len(leading) == 1 else None

    def wait_until_books_balance(self, names=None, seconds=30):
        """Waits until lenders and borrowers tell the same of each other, these nodes or all."""
        eventually("the books balance", lambda: books_of(self, names) is not None, seconds)


def told_by(node):
    """What a node says of its cluster."""
    return json.loads(node.call("cluster", "status", "--json"))


def answers(node):
    """Whether a daemon runs and does not stand still."""
    if node.process.poll() is not None:
        return False
    # PID (NAME) STATE …
    stat = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] != "T"


def nodes_in(told):
    """The states of the nodes in what a node told, by name."""
    return {node["name"]: node["state"] for node in told["view"]["nodes"]} if told["view"] else {}


def active(told):
    return sorted(name for name, state in nodes_in(told).items() if state == "active")


def placement_of(node):
    """The placement policy, as the leader told a node; empty if it has told none."""
    view = told_by(node)["view"]
    return view["placement"] if view else ""


def state_of(node, name):
    """The state that a node tells of another one; None if it knows no such node."""
    return nodes_in(told_by(node)).get(name)


def work_on(node, size=SIZE, name="disk"):
    """Threads that read and write a disk of a node, and compare every byte."""
    known = content(size)
    return KnownDisk(add_disk(node, name, size, known), known).start()


def far_hits(node, work):
    """Pages of the disk that came from lenders."""
    return node.show(work.disk.name)["far_hits"]


def wait_for_far_reads(node, work, seconds=60):
    """Waits until pages come from lenders, from now on. Returns how long it took."""
    before, began = far_hits(node, work), time.monotonic()

    def enough():
        work.check()
        return far_hits(node, work) >= before + FAR_HITS

    eventually("pages come from lenders", enough, seconds)
    return time.monotonic() - began


def books_of(cluster, names=None):
    """How many bytes who lends to whom of these nodes or all: {"bc": 4096} if b lends them to c. None if lender and
    borrower do not tell the same, as while memory goes from one to the other."""
    names = names or cluster.nodes
    told = {name: {peer["name"]: peer for peer in cluster[name].lending()["peers"]} for name in names}

    def amounts(key):
        pairs = ((node, peer, told[node].get(peer, {}).get(key)) for node in names for peer in names if node != peer)
        return {(node, peer): amount for node, peer, amount in pairs if amount}

    lent = {lender + borrower: amount for (lender, borrower), amount in amounts("lent").items()}
    borrowed = {lender + borrower: amount for (borrower, lender), amount in amounts("borrowed").items()}
    return lent if lent == borrowed else None


def lenders_of(node):
    return sorted({peer for peer, direction, _ in node.leases() if direction == "borrowed"})


def wait_until_borrowing(node, seconds):
    """Waits until a node borrows. Returns how long it took."""
    began = time.monotonic()
    eventually(f"{node.name} borrows", lambda: node.lending()["borrowed"] > 0, seconds)
    return time.monotonic() - began


def end(node, work):
    """Ends the work. Everything on the disk is as it should be, and no request failed."""
    work.stop()
    work.read_all()
    assert node.show(work.disk.name)["faults"] == 0
    print(f"{sum(work.counts)} requests, {far_hits(node, work)} pages came from lenders")
