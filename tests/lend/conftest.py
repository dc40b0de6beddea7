import pytest

import kernel
import programs
from fixtures import boot, folder, limited, pytest_runtest_makereport
from host_fixtures import authority, begin_session, long, network, nodes, proxies, sublet
from nodes import PORT, NodeSetting
from programs import Missing

# What pytest finds here by its name.
__all__ = ["authority", "boot", "folder", "limited", "long", "network", "nodes", "proxies"]
__all__ += ["pytest_runtest_makereport", "sublet"]


def pytest_sessionstart(session):
    begin_session()
    try:
        with programs.alone():
            kernel.initramfs()
    except Missing:
        # The tests that need it say so.
        pass


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
