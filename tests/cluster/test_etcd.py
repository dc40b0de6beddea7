"""Clusters that know their members by etcd: they elect, leaders die and stand still, and etcd goes and returns."""

import json
import time

import pytest

from cluster import (
    ELECTION_SECONDS,
    HICCUP_SECONDS,
    JOINED_SECONDS,
    LEADERLESS_SECONDS,
    LENDER,
    active,
    end,
    lenders_of,
    placement_of,
    state_of,
    told_by,
    wait_for_far_reads,
    wait_until_borrowing,
    work_on,
)
from etcd import PASSWORD
from nodes import Authority, NodeSetting, eventually

# etcdctl reads one word.
NEXT_PASSWORD = "known-to-nodes-later"
ELECTED_SECONDS = ELECTION_SECONDS + HICCUP_SECONDS


def wait_for_another_leader(cluster, before, seconds=ELECTED_SECONDS):
    """Waits until another node leads, in a higher term. Returns it, and how long it took."""
    began, term = time.monotonic(), before["term"]

    def found():
        node = cluster.leader()
        return node and node.name != before["node"] and told_by(node)["term"] > term

    eventually("another node leads in a higher term", found, seconds)
    return cluster.leader(), time.monotonic() - began


def is_without_leader(node):
    """Whether a node neither leads nor knows who does."""
    told = told_by(node)
    return told["leader"] is None and not told["leads_here"]


def others(cluster, *nodes):
    names = {node.name for node in nodes}
    return [name for name in cluster.nodes if name not in names]


def test_a_node_that_joins_later_lends(elected, etcd):
    kept = etcd()
    cluster = elected("a", kept).wait_until_joined()
    work = work_on(cluster["a"])
    work.goes_on(2)
    cluster.nodes.update(elected("d", kept, ceiling=LENDER).nodes)
    cluster.wait_until_joined()
    wait_for_far_reads(cluster["a"], work)
    assert lenders_of(cluster["a"]) == ["d"]
    end(cluster["a"], work)


@pytest.mark.seconds(20)
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_another_node_leads_when_the_leader_is_gone(elected, etcd, how):
    cluster = elected("abcd", etcd()).wait_until_joined()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    leader = cluster.leader()
    before = told_by(leader)
    leader.kill() if how == "killed" else leader.stop()
    new, took = wait_for_another_leader(cluster, before)
    print(f"{new.name} leads {took:.1f} s after {leader.name} was {how}")
    eventually("the old one is gone", lambda: state_of(new, leader.name) in ("gone", None), ELECTED_SECONDS)
    wait_for_far_reads(cluster["a"], work)
    leader.start()
    cluster.wait_until_joined()
    end(cluster["a"], work)


def test_a_leader_that_stood_still_past_its_term_follows_the_next_one(elected, etcd):
    cluster = elected("abc", etcd()).wait_until_joined()
    old = cluster.leader()
    before = told_by(old)
    old.pause()
    new, _ = wait_for_another_leader(cluster, before)
    old.go_on()
    cluster.wait_until_joined()
    assert told_by(old)["leader"] == new.name and not told_by(old)["leads_here"]


@pytest.mark.seconds(30)
@pytest.mark.parametrize("lost", [2, 3])
def test_pages_leases_and_recalls_go_on_without_etcd(elected, etcd, lost):
    kept = etcd(members=3)
    cluster = elected("abc", kept).wait_until_joined()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    leases = set(cluster["a"].leases())
    kept.kill(*kept.hosts[:lost])
    for node in cluster.nodes.values():
        eventually(f"{node.name} sees that etcd is away", lambda: told_by(node)["etcd"]["state"] == "failing", 60)
        eventually(f"{node.name} does not lead", lambda: not told_by(node)["leads_here"], 60)
    wait_for_far_reads(cluster["a"], work)
    assert leases & set(cluster["a"].leases()), "leases do not end with etcd"
    cluster["b"].call("lend", "recall", "--now")
    eventually("b has its memory", lambda: cluster["b"].lending()["lent"] == 0, HICCUP_SECONDS)
    work.goes_on(1)
    kept.start_members()
    cluster.wait_until_joined(seconds=90)
    wait_for_far_reads(cluster["a"], work)
    end(cluster["a"], work)


def test_a_borrower_without_a_leader_asks_two_at_random(elected, etcd):
    kept = etcd()
    cluster = elected("abc", kept).wait_until_joined()
    kept.kill()
    began = time.monotonic()
    for node in cluster.nodes.values():
        eventually(f"nobody leads {node.name}", lambda: is_without_leader(node), LEADERLESS_SECONDS + HICCUP_SECONDS)
    print(f"nobody led {time.monotonic() - began:.1f} s after etcd was killed")
    work = work_on(cluster["a"])
    took = wait_until_borrowing(cluster["a"], 60)
    print(f"a borrowed after {took:.1f} s without etcd")
    wait_for_far_reads(cluster["a"], work)
    end(cluster["a"], work)


@pytest.mark.seconds(27)
def test_etcds_leader_and_ours_die_together(elected, etcd):
    kept = etcd(members=3)
    cluster = elected("bcd", kept).wait_until_joined()
    old = cluster.leader()
    before = told_by(old)
    of_etcd = kept.leader()
    old.kill()
    kept.kill(of_etcd)
    # These members of etcd call their leader dead after five seconds, and give leases their time again.
    new, took = wait_for_another_leader(cluster, before, 60)
    print(f"{new.name} leads {took:.1f} s after etcd's leader and {old.name} were killed")
    cluster.wait_until_joined(others(cluster, old))


def test_a_node_that_is_cut_off_from_etcd_keeps_its_leases(elected, etcd):
    kept = etcd()
    cluster = elected("abc", kept).wait_until_joined()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    cut = cluster["b"]
    leases = {lease for lease in cluster["a"].leases() if lease[0] == "b"}
    cut.host.stop_sending_to(kept.hosts[0])
    eventually("b is no member in etcd", lambda: "/sublet/default/1/nodes/b" not in kept.keys(), 60)
    wait_for_far_reads(cluster["a"], work)
    assert leases <= set(cluster["a"].leases())
    cut.host.send_to(kept.hosts[0])
    cluster.wait_until_joined(seconds=60)
    end(cluster["a"], work)


@pytest.mark.seconds(21)
def test_nodes_find_each_other_elect_and_one_key_changes_the_policy_of_whoever_leads(elected, etcd):
    kept = etcd()
    cluster = elected("abc", kept).wait_until_joined()
    a, prefix = cluster["a"], "/sublet/default/1"
    assert sorted(kept.keys()) == [f"{prefix}/leader", *(f"{prefix}/nodes/{name}" for name in "abc")]
    told = told_by(a)
    assert told["how"] == "etcd" and told["etcd"]["state"] == "connected" and told["etcd"]["lease_ttl_secs"] > 0
    key = f"{prefix}/settings"
    assert placement_of(a).startswith("spread")
    kept.ctl("put", key, '{"placement": "two-level"}')
    eventually("the policy is another one", lambda: placement_of(a).startswith("two-level"), 20)
    kept.ctl("put", key, '{"placement": "no-such-policy"}')
    kept.ctl("put", "/sublet/default/1/other", "a later version's")
    work = work_on(a)
    wait_for_far_reads(a, work)
    assert told_by(a)["advice_followed"] > 0
    assert placement_of(a).startswith("two-level"), "what makes no sense is refused"
    kept.ctl("put", key, '{"placement": "two-choices"}')
    before = told_by(cluster.leader())
    cluster[before["node"]].kill()
    wait_for_another_leader(cluster, before)
    eventually("the next leader has it, too", lambda: placement_of(a).startswith("two-choices"), 20)
    kept.ctl("del", key)
    eventually("the policy is the config's again", lambda: placement_of(a).startswith("spread"), 20)
    end(a, work)
    cluster.wait_until_books_balance(others(cluster, cluster[before["node"]]))


def test_nodes_are_a_user_of_etcd_by_name_and_password(elected, etcd):
    kept = etcd(secured=True)
    cluster = elected("abc", kept).wait_until_joined()
    wrong = elected("d", kept, peers=kept.settings(password="a guess"))["d"]
    eventually("the wrong password is told", lambda: told_by(wrong)["etcd"]["why"] != "", 30)
    told = told_by(wrong)
    assert told["etcd"]["state"] == "failing" and told["leader"] is None
    assert state_of(cluster["a"], "d") is None
    assert "a guess" not in wrong.log() and "known to nodes" not in cluster["a"].log()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    end(cluster["a"], work)


@pytest.mark.seconds(20)
def test_nodes_read_anew_what_they_show_to_etcd(elected, etcd):
    kept = etcd(secured=True)
    cluster = elected("abc", kept).wait_until_joined()
    everybody = cluster.nodes.values()
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)

    # A file without a password is refused. An etcd that was started again knows no token, and the old password holds.
    kept.write_password("")
    for node in everybody:
        node.reread()
        eventually(f"{node.name} refuses the file", lambda: refuses(node, kept.passwords[0]), 30)
    kept.kill()
    kept.start_members()
    wait_until_heard(cluster, kept, "two-choices")

    # etcd goes on with a node's token until it is started again.
    kept.change_password(NEXT_PASSWORD)
    kept.kill()
    kept.start_members()
    wait_until_shut_out(cluster, "refuses the user")
    kept.write_password(NEXT_PASSWORD)
    for node in everybody:
        node.reread()
    wait_until_heard(cluster, kept, "two-level")

    kept.change_authority()
    wait_until_shut_out(cluster, "TLS with etcd")
    for node in everybody:
        node.reread()
    wait_until_heard(cluster, kept, "spread")
    wait_for_far_reads(cluster["a"], work)
    end(cluster["a"], work)
    assert not any(word in node.log() for node in everybody for word in (PASSWORD, NEXT_PASSWORD))


@pytest.mark.seconds(20)
def test_a_node_that_left_learns_what_happened_once_it_joins(elected, etcd):
    kept = etcd()
    cluster = elected("abc", kept).wait_until_joined()
    a, b = cluster["a"], cluster["b"]
    work = work_on(a)
    wait_for_far_reads(a, work)
    prefix = "/sublet/default/1"
    kept.ctl("put", f"{prefix}/settings", '{"placement": "greedy-remote"}')
    eventually("the settings are heard", lambda: placement_of(b).startswith("greedy-remote"), 20)
    b.call("cluster", "leave", "--within", "5s")
    assert told_by(b)["phase"] == "left"
    assert b.lending()["lent"] == 0
    eventually("b is gone for the others", lambda: state_of(a, "b") == "gone", ELECTED_SECONDS)
    assert f"{prefix}/nodes/b" not in kept.keys()
    cluster["c"].lose_power()
    kept.ctl("del", f"{prefix}/settings")
    eventually("the key of c has ended", lambda: f"{prefix}/nodes/c" not in kept.keys(), ELECTED_SECONDS)
    b.call("cluster", "join")
    cluster.wait_until_joined("ab")
    eventually("b knows that c is gone", lambda: state_of(b, "c") in (None, "gone"), 20)
    eventually("the settings of its config hold", lambda: placement_of(b).startswith("spread"), 20)
    wait_for_far_reads(a, work)
    assert lenders_of(a) == ["b"]
    end(a, work)


def test_of_two_daemons_of_one_name_the_later_one_stays(elected, etcd, network, nodes):
    kept = etcd()
    cluster = elected("ab", kept).wait_until_joined()
    first = cluster["b"]
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    later = NodeSetting(members={}, peers=kept.settings(), ceiling=LENDER, borrow=256, name="b")
    cluster.nodes["b"] = nodes(network.add("d"), later)
    eventually("the earlier one has left", lambda: told_by(first)["phase"] == "left", JOINED_SECONDS)
    assert first.lending()["lent"] == 0
    cluster.wait_until_joined("ab")
    wait_for_far_reads(cluster["a"], work)
    assert cluster["b"].lending()["lent"] > 0
    end(cluster["a"], work)


def wait_until_heard(cluster, kept, policy):
    """Waits until all nodes take part and hear what changes in etcd."""
    cluster.wait_until_joined(seconds=60)
    kept.ctl("put", "/sublet/default/1/settings", json.dumps({"placement": policy}))
    for node in cluster.nodes.values():
        eventually(f"{node.name} hears of {policy}", lambda: placement_of(node).startswith(policy), 30)


def wait_until_shut_out(cluster, why):
    for node in cluster.nodes.values():
        eventually(f"etcd shuts {node.name} out", lambda: why in told_by(node)["etcd"]["why"], 60)


def refuses(node, file):
    """Whether a node has told that it refuses a file."""
    return any(str(file) in event["said"] for event in node.events("credentials.refused"))


def test_a_node_with_a_foreign_certificate_takes_no_part(elected, etcd, network, nodes, folder):
    kept = etcd()
    cluster = elected("abc", kept).wait_until_joined()
    foreign = Authority(f"{folder}/foreign")
    setting = NodeSetting(members={}, peers=kept.settings(), ceiling=256, borrow=256)
    x = nodes(network.add("x"), setting, authority=foreign)
    eventually("etcd has it", lambda: "/sublet/default/1/nodes/x" in kept.keys(), 30)
    work = work_on(cluster["a"])
    wait_for_far_reads(cluster["a"], work)
    everybody = [*cluster.nodes.values(), x]
    eventually("somebody refused somebody", lambda: any(node.lending()["refused"] for node in everybody), 60)
    assert x.lending()["lent"] == 0 and x.lending()["borrowed"] == 0
    for node in cluster.nodes.values():
        assert active(told_by(node)) == ["a", "b", "c"]
        assert "x" not in {peer for peer, _, _ in node.leases()}
    end(cluster["a"], work)
