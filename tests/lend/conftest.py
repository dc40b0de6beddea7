import os

import pytest

import kernel
import programs
import served
from fixtures import boot, folder, limited, pytest_runtest_makereport
from network import Network, remove_left_behind
from nodes import PORT, Authority, Node, NodeSetting
from programs import Missing
from proxy import Proxy

# What pytest finds here by its name.
__all__ = ["boot", "folder", "limited", "pytest_runtest_makereport"]


def pytest_sessionstart(session):
    if not (served.PROGRAM and os.access(served.PROGRAM, os.X_OK)):
        pytest.exit("set NODE_PROGRAM to a sublet binary", returncode=2)
    remove_left_behind()
    try:
        with programs.alone():
            kernel.initramfs()
    except Missing:
        # The tests that need it say so.
        pass


@pytest.fixture
def long():
    """Whether this is the long form, which `cargo xtask soak` runs."""
    return bool(os.environ.get("LEND_LONG"))


@pytest.fixture
def network(limited):
    """A switch and hosts on it. It is removed after the daemons and before the cgroups."""
    made = Network()
    yield made
    made.close()


@pytest.fixture
def authority(folder):
    """The authority of the cluster."""
    return Authority(f"{folder}/authority")


@pytest.fixture
def proxies(network):
    """Proxies, which end with the test."""
    made = []

    def start(host):
        made.append(Proxy(host))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def nodes(folder, network, authority, proxies):
    """Starts daemons: nodes(HOST, NodeSetting). Their hosts' names are theirs. They end with the test."""
    started = []

    def start(host, setting):
        authority.issue(host.name)
        started.append(Node(folder, host, authority, setting))
        return started[-1]

    yield start
    for node in started:
        node.lose_power()
        if "panicked" in node.log():
            pytest.fail(f"{node.name} panicked:\n{node.log()[-3000:]}")


@pytest.fixture
def pair(network, nodes, proxies):
    """Starts a borrower `a` and lenders: pair(), pair(lenders=3), pair(proxied=True). See `Cluster`."""
    return lambda **how: Cluster(network, nodes, proxies, **how)


class Cluster:
    """A borrower `a`, and lenders `b`, `c`, … with 512 MiB each. `borrower` and `lender` are what differs from the
    usual NodeSetting. If it is `proxied`, the borrower meets the first lender by a proxy."""

    def __init__(self, network, nodes, proxies, lenders=1, proxied=False, borrower=None, lender=None):
        names = "abcdefgh"[: lenders + 1]
        hosts = [network.add(name) for name in names]
        addresses = {host.name: f"{host.address}:{PORT}" for host in hosts}
        self.proxy = proxies(hosts[1]) if proxied else None
        met = {**addresses, "b": self.proxy.address} if proxied else addresses
        members = {name: met[name] for name in names[1:]}
        usual = dict(members=members, ceiling=32, borrow=256)
        self.borrower = nodes(hosts[0], NodeSetting(**{**usual, **(borrower or {})}))
        usual = dict(members={"a": addresses["a"]}, ceiling=512)
        self.lenders = [nodes(host, NodeSetting(**{**usual, **(lender or {})})) for host in hosts[1:]]
        self.lender = self.lenders[0]
