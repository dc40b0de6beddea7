"""Pages of a disk lie at a lender and come back, whatever the nodes' addresses and ciphers are."""

import subprocess

import pytest

from borrowing import SIZE, borrow, end
from network import ip
from nodes import MIB, PORT, NodeSetting, add_disk, eventually, wait_until_up

KINDS = {
    "plain": ({}, {}),
    # The lender runs no cipher for pages, so the two may differ.
    "without AEGIS": (dict(env={"SUBLET_TEST_REFUSE_AEGIS": "1"}), {}),
    "IPv6": (
        dict(listen="[fd77::1]", members={"b": f"[fd77::2]:{PORT}"}),
        dict(listen="[fd77::2]", members={"a": f"[fd77::1]:{PORT}"}),
    ),
}
CIPHERS = {"plain": "aegis-128x2", "without AEGIS": "chacha20-poly1305", "IPv6": "aegis-128x2"}


@pytest.mark.parametrize("kind", ["plain", "without AEGIS", "IPv6"])
def test_pages_come_back_from_a_lender(pair, kind):
    borrower, lender = KINDS[kind]
    cluster = pair(borrower=borrower, lender=lender)
    work = borrow(cluster)
    assert cluster.borrower.lending()["cipher"].lower() == CIPHERS[kind]
    eventually("the lender lends", lambda: cluster.lender.lending()["lent"] >= 16 * MIB, 30)
    end(cluster, work)
    assert cluster.borrower.lost("forged") == 0
    assert cluster.lender.peer("a")["pages"]["served"] >= cluster.borrower.far_hits()


def test_fio_verifies_on_borrowed_memory(pair, long):
    cluster = pair(lenders=2)
    wait_until_up(cluster.borrower, "b", "c")
    disk = add_disk(cluster.borrower, "fio", SIZE)
    words = ["fio", "--name=verify", "--ioengine=nbd", f"--uri={disk.uri}", "--rw=randrw"]
    words += ["--bssplit=4k/60:16k/20:64k/20", "--iodepth=16", f"--size={SIZE}", "--verify=crc32c", "--verify_fatal=1"]
    words += ["--verify_state_save=0", "--verify_backlog=4096", f"--loops={20 if long else 3}", "--randrepeat=0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800 if long else 300)
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"{cluster.borrower.far_hits()} pages came from lenders")
    assert cluster.borrower.far_hits() > 0
    assert cluster.borrower.show("fio")["faults"] == 0


def test_a_name_is_looked_up_anew_at_each_connect(network, nodes, pair):
    a, b = network.add("a"), network.add("b")
    other = "10.77.0.200"
    ip("-n", b.namespace, "addr", "add", f"{other}/24", "dev", "eth0")
    a.say_names({"lender.test": b.address})
    lender = nodes(b, NodeSetting(members={"a": f"{a.address}:{PORT}"}, ceiling=512, listen="0.0.0.0"))
    borrower = nodes(a, NodeSetting(members={"b": f"lender.test:{PORT}"}, ceiling=32, borrow=256))
    wait_until_up(borrower, "b")
    a.say_names({"lender.test": other})
    ip("-n", b.namespace, "addr", "del", f"{b.address}/24", "dev", "eth0")
    ip("-n", b.namespace, "addr", "replace", f"{other}/24", "dev", "eth0")
    eventually("the old connection is lost", lambda: not borrower.is_up_with("b"), 15)
    wait_until_up(borrower, "b", seconds=30)
    assert lender.is_up_with("a")
