"""Clusters whose configs name the leader: it advises, it dies and comes back, and nodes leave and join."""

import pytest

from cluster import (
    HICCUP_SECONDS,
    JOINED_SECONDS,
    SILENT_SECONDS,
    end,
    far_hits,
    lenders_of,
    state_of,
    told_by,
    wait_for_far_reads,
    wait_until_borrowing,
    work_on,
)
from nodes import eventually


def test_a_borrower_follows_the_leaders_advice(named):
    cluster = named("abc", leader="c").wait_until_joined()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    told = told_by(cluster["a"])
    assert (told["how"], told["leader"], told["leads_here"]) == ("named-leader", "c", False)
    assert told["advice_followed"] > 0
    assert told["view"]["whole"] and told["view"]["placement"].startswith("spread")
    advice = told["view"]["advice"]
    assert {each["borrower"] for each in advice} == {"a"} and {each["lender"] for each in advice} <= {"b", "c"}
    assert all(each["why"] and each["bytes"] > 0 for each in advice)
    assert set(lenders_of(cluster["a"])) <= {"b", "c"}
    for words in ("status",), ("plan",):
        assert "spread" in cluster["c"].call("cluster", *words)
    end(cluster["a"], work)
    cluster.wait_until_books_balance()
    assert not told_by(cluster["c"])["view"]["alarms"]


@pytest.mark.seconds(28)
def test_without_their_leader_borrowers_find_lenders_themselves(named):
    cluster = named("abcd", leader="d").wait_until_joined()
    cluster["d"].kill()
    work = work_on(cluster["a"])
    took = wait_until_borrowing(cluster["a"], SILENT_SECONDS + 5 * HICCUP_SECONDS)
    print(f"a borrowed {took:.1f} s after its leader was killed")
    assert set(lenders_of(cluster["a"])) <= {"b", "c"}
    wait_for_far_reads(cluster["a"], work)
    assert told_by(cluster["a"])["leader_silent_millis"] > SILENT_SECONDS * 1000
    cluster["d"].start()
    cluster.wait_until_joined()
    followed = told_by(cluster["a"])["advice_followed"]
    # What it has is taken, so that it wants some again.
    for lender in "bc":
        cluster[lender].call("lend", "recall", "--now")
    eventually("advice is followed again", lambda: told_by(cluster["a"])["advice_followed"] > followed, 60)
    end(cluster["a"], work)


def test_a_node_leaves_and_stays_out_until_it_joins_or_for_a_run(named):
    cluster = named("abc", leader="c").wait_until_joined()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    b = cluster["b"]
    told = b.call("cluster", "leave", "--within", "5s")
    assert "left" in told and "sublet cluster join" in told
    assert [b.lending()[key] for key in ("phase", "lent", "borrowed")] == ["left", 0, 0]
    eventually("the leader knows that b left", lambda: state_of(cluster["c"], "b") == "gone", JOINED_SECONDS)
    wait_for_far_reads(cluster["a"], work)
    assert lenders_of(cluster["a"]) == ["c"]
    b.stop()
    b.start()
    assert told_by(b)["phase"] == "left", "it lasts over a restart"
    b.call("cluster", "join")
    cluster.wait_until_joined()
    b.call("cluster", "leave", "--temporary")
    assert told_by(b)["leave_lasts"] == "until-restart"
    b.stop()
    b.start()
    cluster.wait_until_joined()
    end(cluster["a"], work)


def test_a_borrower_that_leaves_gives_all_back_and_serves_on(named):
    cluster = named("abc", leader="c").wait_until_joined()
    a, work = cluster["a"], work_on(cluster["a"])
    wait_for_far_reads(a, work)
    a.call("cluster", "leave", "--within", "5s")
    cluster.wait_until_books_balance()
    assert all(cluster[name].lending()["lent"] == 0 for name in "bc")
    before = far_hits(a, work)
    work.goes_on(1)
    assert far_hits(a, work) == before
    a.call("cluster", "join")
    wait_for_far_reads(a, work)
    end(a, work)


@pytest.mark.seconds(25)
def test_pages_and_leases_do_not_wait_for_a_leader_that_stands_still_and_is_followed_again(named):
    cluster = named("abcd", leader="d").wait_until_joined()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    leases = [lease for lease in cluster["a"].leases() if lease[0] != "d"]
    cluster["d"].pause()
    wait_for_far_reads(cluster["a"], work)
    assert set(leases) <= set(cluster["a"].leases())
    eventually(
        "the leader counts as silent",
        lambda: (told_by(cluster["a"])["leader_silent_millis"] or 0) > SILENT_SECONDS * 1000,
        SILENT_SECONDS + 5 * HICCUP_SECONDS,
    )
    wait_for_far_reads(cluster["a"], work)
    cluster["d"].go_on()
    cluster.wait_until_joined()
    end(cluster["a"], work)
