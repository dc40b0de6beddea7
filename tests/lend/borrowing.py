"""How tests begin: a borrower whose disk's pages lie at lenders."""

from known_disk import KnownDisk, content
from nodes import MIB, add_disk, eventually, wait_until_up

SIZE = 80 * MIB
FAR_HITS = 500


def borrow(cluster, size=SIZE, name="disk"):
    """A disk on the borrower, at which threads work already. Pages of it come from lenders. Returns the KnownDisk."""
    wait_until_up(cluster.borrower, *(lender.name for lender in cluster.lenders))
    known = content(size)
    work = KnownDisk(add_disk(cluster.borrower, name, size, known), known).start()
    far_reads(cluster, work)
    return work


def far_reads(cluster, work, seconds=60):
    """Waits until pages come from lenders, from now on."""
    before = cluster.borrower.far_hits()
    eventually("pages come from lenders", lambda: enough(cluster, work, before), seconds)


def enough(cluster, work, before):
    work.check()
    return cluster.borrower.far_hits() >= before + FAR_HITS


def end(cluster, work):
    """Ends the work. Everything on the disk is as it should be, and no request failed."""
    work.stop()
    work.read_all()
    assert cluster.borrower.show(work.disk.name)["faults"] == 0
    print(f"{sum(work.counts)} requests, {cluster.borrower.far_hits()} pages came from lenders")
