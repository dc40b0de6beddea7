"""Hosts that are no members, and whoever alters what lies between nodes, are refused, counted and logged once. The pair
works on, and no wrong byte is read."""

import os
import pathlib
import ssl

import pytest

from borrowing import borrow, end, far_reads
from hostile import call, hello, lines, page_hello, said
from nodes import PORT, Authority, NodeSetting, eventually, wait_until_up

CALLS = 5


def refused(node, cause):
    return node.lending()["refused"].get(cause, 0)


def files_of(kind, folder, authority):
    """Certificate and key of a stranger."""
    match kind:
        case "no-certificate":
            return None
        case "unknown-authority":
            return Authority(f"{folder}/other").issue("x")
        case "other-cluster":
            return authority.of_cluster("x", "another")
        case "expired":
            return authority.ended("x")
        case "denied":
            return authority.paths("x")


@pytest.mark.parametrize("kind", ["no-certificate", "unknown-authority", "other-cluster", "expired", "denied"])
def test_a_host_that_is_none_of_the_cluster_is_refused(pair, network, folder, authority, kind):
    authority.issue("x")
    lender = dict(peers=(f'deny = ["{authority.fingerprint("x")}"]',)) if kind == "denied" else {}
    cluster = pair(lender=lender)
    x = network.add("x")
    files = files_of(kind, folder, authority)
    work = borrow(cluster)
    for _ in range(CALLS):
        try:
            connection = call(x, cluster.lender, files)
            connection.sendall(hello("x"))
        except (OSError, ssl.SSLError):
            continue
        assert said(connection) == b"", "it is told nothing"
    eventually("each call is counted", lambda: refused(cluster.lender, kind) == CALLS, 10)
    far_reads(cluster, work)
    end(cluster, work)
    assert cluster.lender.times("peer.refused", kind) == 1


def test_a_node_that_is_no_member_is_refused(pair, network, authority):
    cluster = pair()
    x = network.add("x")
    files = authority.issue("x")
    for _ in range(CALLS):
        connection = call(x, cluster.lender, files)
        connection.sendall(hello("x"))
        assert b"grant" not in said(connection)
    eventually("each call is counted", lambda: cluster.lender.lending()["strangers"] == CALLS, 10)
    assert cluster.lender.times("peer.refused", "stranger") == 1


def test_a_flood_does_not_stop_the_pair(pair, network, long):
    cluster = pair()
    x = network.add("x")
    work = borrow(cluster)
    before = cluster.lender.census()
    address = cluster.lender.host.address, PORT
    for round in range(20 if long else 3):
        flood = []
        for number in range(300):
            try:
                flood.append(x.connect(*address, seconds=5))
                openings = [b"", b"\x16\x03\x01", b"SBLD", page_hello(number=number), os.urandom(500)]
                flood[-1].sendall(openings[number % len(openings)])
            except OSError:
                # It is refused, or its connection was closed for a newer one: that is the point.
                pass
        far_reads(cluster, work)
        assert cluster.borrower.is_up_with("b")
        for connection in flood:
            connection.close()
    eventually("all is closed", lambda: cluster.lender.census()["descriptors"] <= before["descriptors"] + 4, 30)
    assert cluster.lender.lending()["page_connections_refused"] > 0
    end(cluster, work)


@pytest.mark.parametrize("kind", ["flood", "garbled", "protocol"])
def test_a_member_that_is_no_daemon_is_shut_out(network, nodes, authority, kind):
    a, b = network.add("a"), network.add("b")
    files = authority.issue("a")
    node = nodes(b, NodeSetting(members={"a": f"{a.address}:{PORT}"}, ceiling=128))
    line, count = {
        "flood": (b'{"kind":"ping","tag":1}\n', 5000),
        "garbled": (b"no line of JSON\n", 1),
        "protocol": (hello("a"), 1),
    }[kind]
    for _ in range(2):
        connection = call(a, node, files)
        try:
            connection.sendall(hello("a") + line * count)
        except (OSError, ssl.SSLError):
            # It was shut out before it had said all.
            pass
        said(connection)
        eventually("it is shut out", lambda: node.peer("a")["link"] == "shut", 10)
    assert node.times("peer.shut", kind) == 1


def test_replayed_connections_are_refused(pair, network, folder):
    cluster = pair(proxied=True)
    recorded = pathlib.Path(folder) / "recorded"
    recorded.mkdir()
    cluster.proxy.order("record", recorded)
    work = borrow(cluster)
    connections = [file.read_bytes() for file in recorded.iterdir()]
    print(f"{len(connections)} connections, {sum(map(len, connections))} bytes")
    assert len(connections) >= 2, "one that writes and one that reads"
    before = cluster.lender.lending()["page_connections_refused"]
    for host in (cluster.borrower.host, network.add("x")):
        for sent in connections:
            connection = host.connect(cluster.lender.host.address, PORT)
            try:
                connection.sendall(sent)
            except OSError:
                pass
            assert said(connection) == b"", "a replay is not answered"
    count = lambda: cluster.lender.lending()["page_connections_refused"] - before
    eventually("each replay is counted", lambda: count() == 2 * len(connections), 10)
    far_reads(cluster, work)
    end(cluster, work)


def test_altered_pages_are_found_out(pair):
    cluster = pair(proxied=True)
    work = borrow(cluster)
    cluster.proxy.order("alter", 3000)
    is_shut = lambda: work.check() or cluster.borrower.peer("b")["link"] == "shut"
    eventually("the lender is shut out", is_shut, 30)
    peer = cluster.borrower.peer("b")
    _, _, altered = cluster.proxy.report()
    print(f"{altered} bits were changed; of {peer['pages']['fetched']} pages {peer['pages']['lost']} were lost")
    assert cluster.borrower.lost("forged") >= 3
    assert peer["borrowed"] == 0, "its leases have ended"
    assert cluster.borrower.times("peer.shut", "forged") == 1
    work.goes_on(1)
    end(cluster, work)


def test_answers_that_are_cut_off_or_do_not_come_are_misses(pair):
    cluster = pair(proxied=True)
    work = borrow(cluster)
    cluster.proxy.order("truncate", 200_000)
    before = cluster.borrower.far_hits()
    work.goes_on(3)
    cluster.proxy.order("pass")
    far_reads(cluster, work)
    cluster.proxy.order("hang")
    # Each request would wait for a second if nothing but the silence of a connection ended it.
    work.goes_on(3, 30 * len(work.counts))
    cluster.proxy.order("pass")
    far_reads(cluster, work)
    print(f"lost: {cluster.borrower.peer('b')['pages']['lost']}, hits {before} to {cluster.borrower.far_hits()}")
    assert cluster.borrower.lost("forged") == 0
    end(cluster, work)


def test_without_a_common_version_a_pair_does_not_lend(network, nodes, authority):
    a, b = network.add("a"), network.add("b")
    files = authority.issue("a")
    node = nodes(b, NodeSetting(members={"a": f"{a.address}:{PORT}"}, ceiling=128))
    for _ in range(2):
        connection = call(a, node, files)
        connection.sendall(hello("a", versions=(2, 2)))
        heard = lines(said(connection))
        assert [message["kind"] for message in heard] == ["hello", "bye"]
        assert heard[0]["versions"] == [1, 1]
        assert heard[1]["reason"] == "versions"
        assert node.peer("a")["link"] == "incompatible"
    assert node.times("peer.incompatible", "no-common-version") == 1
    # What speaks both versions speaks the common one.
    connection = call(a, node, files)
    connection.sendall(hello("a", versions=(1, 2)))
    wait_until_up(node, "a", seconds=5)
    assert node.peer("a")["protocol"] == 1
    connection.close()
