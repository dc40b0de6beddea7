"""Memory follows a peak from node to node: who has it borrows, and who comes to have it takes its own back first."""

import time

import pytest

from cluster import HICCUP_SECONDS, JOINED_SECONDS, books_of, end, wait_for_far_reads, work_on
from nodes import MIB, eventually

# Each node's arena, and the disk on which its peak works, in MiB and bytes.
CEILING, SIZE = 32, 64 * MIB
# docs/cluster.md: a node that borrowed lends half a minute later.
ROLE_SECONDS = 30


@pytest.mark.seconds(55)
def test_memory_follows_a_peak_from_node_to_node(named):
    cluster = named("abc", leader="c", ceiling=CEILING, slow="1ms").wait_until_joined()
    a, b, c = cluster.nodes.values()
    assert books_of(cluster) == {}

    with Peak(a) as peak:
        wait_for_books(cluster, "a borrows of b and c", lambda books: set(books) == {"ba", "ca"})
        peak.goes_on()
    assert set(books_of(cluster)) == {"ba", "ca"}, "nobody needs it yet"

    with Peak(b) as peak:
        wait_for_books(cluster, "b has its memory back", lambda books: "ba" not in books)
        wait_for_books(cluster, "b borrows of c", lambda books: set(books) == {"ca", "cb"})
        peak.goes_on()

    with Peak(c) as peak:
        wait_for_books(cluster, "c has its memory back", lambda books: not {"ca", "cb"} & set(books))
        enough = JOINED_SECONDS + ROLE_SECONDS + HICCUP_SECONDS
        wait_for_books(cluster, "c borrows of those who had it", lambda books: books.keys() & {"ac", "bc"}, enough)
        peak.goes_on()
    cluster.wait_until_books_balance()


class Peak:
    """Work on a disk of a node. It begins and ends as a guest's does: with its disk."""

    def __init__(self, node):
        self.node, self.work = node, work_on(node, size=SIZE)

    def __enter__(self):
        return self

    def goes_on(self):
        """Its pages come from lenders, which it needs for its peak."""
        wait_for_far_reads(self.node, self.work)

    def __exit__(self, kind, *_):
        if kind is None:
            end(self.node, self.work)
            self.node.call("disk", "remove", self.work.disk.name)
            del self.node.disks[self.work.disk.name]


def wait_for_books(cluster, what, condition, seconds=60):
    """Waits until it is so, by what lenders and borrowers tell alike. No node lends and borrows at once."""
    told, began = [], time.monotonic()

    def holds():
        books = books_of(cluster)
        told.append(books)
        assert not {lender for lender, _ in books or {}} & {borrower for _, borrower in books or {}}
        return books is not None and condition(books)

    try:
        eventually(what, holds, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {told[-1]}") from None
    amounts = {pair: amount // MIB for pair, amount in told[-1].items()}
    print(f"{what} after {time.monotonic() - began:.0f} s: {amounts} MiB")
