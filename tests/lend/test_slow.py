"""A lender that answers slowly is not asked any more, and is asked again when it is quick."""

from borrowing import borrow, end, far_reads
from nodes import eventually

SLOW_MICROS = 20_000
# How long it is watched while it is slow.
SECONDS = 3


def guards(cluster):
    return [guard["open"] for guard in cluster.borrower.peer("b")["guards"]]


def test_a_slow_lender_is_left_alone_until_it_is_quick(pair):
    cluster = pair(proxied=True, borrower=dict(slow="4ms"))
    work = borrow(cluster)
    eventually("the lender is asked", lambda: all(guards(cluster)), 15)
    cluster.proxy.order("delay", SLOW_MICROS)
    eventually("the lender is left alone", lambda: guards(cluster) and not any(guards(cluster)), 15)
    hits = cluster.borrower.far_hits()
    rate = work.goes_on(SECONDS) / SECONDS
    assert cluster.borrower.events("guard.shut"), "it is an event"
    came = cluster.borrower.far_hits() - hits
    held, too_long, _ = cluster.proxy.report()
    print(
        f"{rate:.0f} requests a second while it is slow, {came} pages came of it; the proxy held {held} answers "
        f"{too_long:.0f} us too long in the mean"
    )
    assert too_long < SLOW_MICROS / 4, "the proxy itself is too slow to judge by"
    # Each read of the backing takes 4 ms: four threads and runs of pages cannot be slower than that by far.
    assert rate > 50
    cluster.proxy.order("pass")
    eventually("the lender is asked again", lambda: any(guards(cluster)), 30)
    far_reads(cluster, work)
    end(cluster, work)
