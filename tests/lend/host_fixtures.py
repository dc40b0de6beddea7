"""What the suites with daemons in network namespaces have in common: hosts, certificates, proxies and daemons."""

import os
import pathlib
import sys

import pytest

import served
from network import Network, remove_left_behind
from nodes import Authority, Node
from programs import ROOT, Missing
from proxy import Proxy


def begin_session():
    """What comes before the first test."""
    if not (served.PROGRAM and os.access(served.PROGRAM, os.X_OK)):
        pytest.exit("set NODE_PROGRAM to a sublet binary", returncode=2)
    remove_left_behind()


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
    """Starts daemons: nodes(HOST, NodeSetting), or with certificates of another authority. Their hosts' names are theirs.
    One that has another's name has its certificate, too. They end with the test."""
    started = []

    def start(host, setting, authority=authority):
        if not setting.name:
            authority.issue(host.name)
        started.append(Node(folder, host, authority, setting))
        return started[-1]

    yield start
    for node in started:
        node.lose_power()
        if "panicked" in node.log():
            pytest.fail(f"{node.name} panicked:\n{node.log()[-3000:]}")


@pytest.fixture(scope="session")
def sublet():
    """The Python package of the page ring."""
    beside = pathlib.Path(served.PROGRAM).with_name("libsublet_client.so")
    library = os.environ.setdefault("SUBLET_LIBRARY", str(beside))
    if not pathlib.Path(library).exists():
        raise Missing(f"{library} is not there: packaging/c-library makes it")
    sys.path.append(str(ROOT / "clients/python"))
    import sublet

    return sublet
