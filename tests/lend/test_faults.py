"""Lenders die, stand still, come back and are cut off while a borrower's disk is in use: no wrong byte, no error."""

import time

import pytest

from borrowing import borrow, end, far_reads
from nodes import FORGOTTEN_SECONDS, KEPT_SECONDS, NOTICED_SECONDS, eventually, wait_until_up

# A partition after which leases live on, and one after which they do not, in seconds.
SHORT, LONG_PARTITION = 3, KEPT_SECONDS + 5


def lose(cluster, work):
    """Waits until the borrower knows that the lender is away, and sees it work on."""
    eventually("the lender is away", lambda: not cluster.borrower.is_up_with("b"), NOTICED_SECONDS)
    work.goes_on(1)


def find_again(cluster, work):
    wait_until_up(cluster.borrower, "b")
    far_reads(cluster, work)


def borrowed(cluster):
    return [lease for lease in cluster.borrower.leases() if lease[1] == "borrowed"]


def test_a_lender_is_killed_and_started_again(pair, long):
    cluster = pair()
    work = borrow(cluster)
    for _ in range(10 if long else 2):
        cluster.lender.kill()
        lose(cluster, work)
        cluster.lender.start()
        find_again(cluster, work)
        ended = [event["reason"] for event in cluster.borrower.events("borrow.ended")]
        assert ended and set(ended) == {"restarted"}, "the lender's next run knows no lease of the last one"
    end(cluster, work)


def test_a_lender_ends_and_says_goodbye(pair):
    cluster = pair()
    work = borrow(cluster)
    cluster.lender.stop()
    lose(cluster, work)
    assert cluster.borrower.lending()["borrowed"] == 0, "a goodbye ends leases at once"
    cluster.lender.start()
    find_again(cluster, work)
    end(cluster, work)


def test_a_lender_stands_still(pair):
    cluster = pair()
    work = borrow(cluster)
    cluster.lender.pause()
    lose(cluster, work)
    work.goes_on(SHORT)
    cluster.lender.go_on()
    find_again(cluster, work)
    end(cluster, work)


def test_a_borrower_stands_still_until_its_leases_have_ended(pair):
    cluster = pair()
    work = borrow(cluster)
    before = borrowed(cluster)
    cluster.borrower.pause()
    eventually("nothing is lent", lambda: cluster.lender.lending()["lent"] == 0, FORGOTTEN_SECONDS)
    cluster.borrower.go_on()
    find_again(cluster, work)
    assert not set(before) & set(borrowed(cluster)), "it believes in leases that have ended"
    end(cluster, work)


@pytest.mark.parametrize("how", ["pulled", "silent", "one way", "other way"])
def test_leases_outlive_a_short_partition(pair, how):
    cluster = pair()
    work = borrow(cluster)
    before = borrowed(cluster)
    a, b = cluster.borrower.host, cluster.lender.host
    cut, heal = {
        "pulled": (b.cut, b.heal),
        "silent": (b.cut_silently, b.heal),
        "one way": (lambda: a.stop_sending_to(b), lambda: a.send_to(b)),
        "other way": (lambda: b.stop_sending_to(a), lambda: b.send_to(a)),
    }[how]
    cut()
    lose(cluster, work)
    heal()
    find_again(cluster, work)
    assert set(before) <= set(borrowed(cluster)), "the borrower has its leases again"
    assert not cluster.borrower.events("borrow.ended"), "it never lost them"
    assert not cluster.lender.events("lend.ended")
    assert cluster.borrower.lost("forged") == 0
    end(cluster, work)


def test_leases_end_in_a_long_partition(pair):
    cluster = pair()
    work = borrow(cluster)
    before = borrowed(cluster)
    cluster.lender.host.cut()
    lose(cluster, work)
    eventually("the lender has its memory", lambda: cluster.lender.lending()["lent"] == 0, FORGOTTEN_SECONDS)
    eventually("the borrower has no lease", lambda: not borrowed(cluster), FORGOTTEN_SECONDS)
    work.goes_on(1)
    cluster.lender.host.heal()
    find_again(cluster, work)
    assert not set(before) & set(borrowed(cluster))
    end(cluster, work)


def test_a_dead_borrowers_memory_is_the_lenders_again(pair):
    cluster = pair()
    work = borrow(cluster)
    lent = cluster.lender.lending()["lent"]
    assert lent > 0
    cluster.borrower.kill()
    killed = time.monotonic()
    eventually("nothing is lent", lambda: cluster.lender.lending()["lent"] == 0, FORGOTTEN_SECONDS)
    took = time.monotonic() - killed
    print(f"{lent >> 20} MiB were the lender's again after {took:.1f} s")
    assert took > KEPT_SECONDS / 2, "a borrower that is away for a moment would lose its leases"


def test_a_borrowers_next_run_ends_the_leases_of_the_last_at_once(pair):
    cluster = pair()
    work = borrow(cluster)
    before = {lease[2] for lease in cluster.lender.leases()}
    cluster.borrower.kill()
    cluster.borrower.start()
    wait_until_up(cluster.borrower, "b")
    assert not before & {lease[2] for lease in cluster.lender.leases()}
    assert cluster.borrower.far_hits() == 0, "nothing of the last run is read"
