import pytest

from cluster import Cluster
from etcd import Etcd
from fixtures import folder, limited, pytest_runtest_makereport
from host_fixtures import authority, begin_session, long, network, nodes, proxies, sublet

# What pytest finds here by its name.
__all__ = ["authority", "folder", "limited", "long", "network", "nodes", "proxies"]
__all__ += ["pytest_runtest_makereport", "sublet"]


def pytest_sessionstart(session):
    begin_session()


def pytest_collection_modifyitems(items):
    """The longest come first, so that those who take them end together."""
    items.sort(key=seconds, reverse=True)


def seconds(item):
    marked = item.get_closest_marker("seconds")
    return marked.args[0] if marked else 0


@pytest.fixture
def etcd(network, folder):
    """Starts an etcd: etcd(), etcd(members=3), etcd(secured=True). See `Etcd`. It ends with the test."""
    made = []

    def start(**how):
        made.append(Etcd(network, folder, **how))
        return made[-1].start()

    yield start
    for each in made:
        each.close()


@pytest.fixture
def named(network, nodes):
    """Starts a cluster whose configs name all members and the leader: named("abc", leader="c")."""
    return lambda names, leader, **how: Cluster.named(network, nodes, names, leader, **how)


@pytest.fixture
def elected(network, nodes):
    """Starts a cluster that knows its members by etcd: elected("abc", etcd)."""
    return lambda names, etcd, **how: Cluster.elected(network, nodes, names, etcd, **how)
