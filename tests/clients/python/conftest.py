import os
import subprocess

import pymemcache
import pytest

import node as node_module
from node import Node


def pytest_sessionstart(session):
    if not node_module.PROGRAM:
        pytest.exit("NODE_PROGRAM is not set: the path of the program under test", returncode=2)
    if not os.access(node_module.PROGRAM, os.X_OK):
        pytest.exit(f"NODE_PROGRAM is no program: {node_module.PROGRAM}", returncode=2)


@pytest.fixture
def nodes():
    """Starts nodes, and ends them after the test."""
    started = []

    def start(*options, face=None, port=None):
        new = Node(face or node_module.faces()[0], options, port)
        started.append(new)
        return new

    yield start
    for each in started:
        each.close()


@pytest.fixture(params=node_module.faces())
def node(request, nodes):
    """A node, once for each face."""
    return nodes(face=request.param)


@pytest.fixture
def text(node):
    """pymemcache on `node`: the text protocol."""
    client = pymemcache.Client(node.address, timeout=20, default_noreply=False)
    yield client
    client.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate for localhost and its key, as paths."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        + ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    return str(certificate), str(key)
