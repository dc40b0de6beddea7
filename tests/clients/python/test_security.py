"""TLS, and the ways to say who one is."""

import socket
import ssl
import stat
from contextlib import closing

import bmemcached
import pymemcache
import pytest

import node as node_module


def trusting(certificate):
    return ssl.create_default_context(cafile=certificate)


def test_tls(nodes, certificate):
    path, key = certificate
    node = nodes("-Z", "-o", f"ssl_chain_cert={path},ssl_key={key}")
    client = pymemcache.Client(node.address, tls_context=trusting(path), default_noreply=False, timeout=20)
    with closing(client):
        assert client.set("k", b"x" * 900_000)
        assert client.get("k") == b"x" * 900_000
        assert client.set_many({f"k{n}": b"v" for n in range(1000)}) == []
        assert len(client.get_many([f"k{n}" for n in range(1000)])) == 1000


def test_tls_says_no_to_plain_text(nodes, certificate):
    path, key = certificate
    node = nodes("-Z", "-o", f"ssl_chain_cert={path},ssl_key={key}")
    with node.wire() as wire:
        wire.send(b"set k 0 0 1\r\nx\r\nget k\r\n")
        assert wire.is_closed()
    raw = socket.create_connection(node.address, timeout=20)
    with trusting(path).wrap_socket(raw, server_hostname="localhost") as sock:
        sock.sendall(b"get k\r\n")
        assert sock.recv(100) == b"END\r\n"


def test_tls_without_a_certificate_does_not_start(nodes):
    with pytest.raises(AssertionError, match="ended at its start"):
        nodes("-Z")


@pytest.fixture
def guarded(nodes, tmp_path):
    path = tmp_path / "users"
    path.write_text("alice:secret\nbob:hunter2")
    path.chmod(0o600)
    return nodes("-Y", str(path))


def test_text_authentication(guarded):
    with guarded.wire() as wire:
        assert wire.ask(b"get k\r\n") == b"CLIENT_ERROR unauthenticated"
    with guarded.wire() as wire:
        assert wire.ask(b"set auth 0 0 11\r\nalice wrong\r\n") == b"CLIENT_ERROR authentication failure"
        assert wire.ask(b"set auth 0 0 12\r\nalice secret\r\n") == b"STORED"
        assert wire.ask(b"get auth\r\n") == b"END", "the credentials are no item"
    with guarded.wire() as wire:
        assert wire.ask(b"set auth 0 0 11\r\nbob hunter2\r\n") == b"STORED"
        assert wire.ask(b"set k 0 0 1\r\nx\r\n") == b"STORED"


def test_one_connection_s_word_is_not_another_s(guarded):
    with guarded.wire() as first, guarded.wire() as second:
        assert first.ask(b"set auth 0 0 12\r\nalice secret\r\n") == b"STORED"
        assert second.ask(b"get k\r\n") == b"CLIENT_ERROR unauthenticated"


def test_missing_file_of_users_does_not_start(nodes):
    with pytest.raises(AssertionError, match="ended at its start"):
        nodes("-Y", "/nonexistent/users")


@pytest.mark.skipif(node_module.is_peer(), reason="a memcached keeps its SASL users outside")
def test_sasl_plain(nodes, tmp_path, monkeypatch):
    path = tmp_path / "users"
    path.write_text("alice:secret\n")
    path.chmod(0o600)
    monkeypatch.setenv("MEMCACHED_SASL_PWDB", str(path))
    node = nodes("-S")
    client = bmemcached.Client((node.name,), "alice", "secret", socket_timeout=20)
    assert client.set("k", "1")
    assert client.get("k") == "1"
    client.disconnect_all()
    stranger = bmemcached.Client((node.name,), socket_timeout=20)
    with pytest.raises(bmemcached.exceptions.MemcachedException, match="32"):
        stranger.get("k")
    stranger.disconnect_all()


def test_unix_socket(nodes, tmp_path):
    path = tmp_path / "sock"
    options = ["-s", str(path), "-a", "0700"]
    process = start_on_socket(options, path)
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        with closing(pymemcache.Client(str(path), default_noreply=False, timeout=20)) as client:
            assert client.set("k", b"1")
            assert client.get("k") == b"1"
    finally:
        process.kill()
        process.wait()


def start_on_socket(options, path):
    import os
    import subprocess
    import time

    program = [node_module.PROGRAM] if node_module.is_peer() else [node_module.PROGRAM, "memcached"]
    user = ["-u", "root"] if os.geteuid() == 0 else []
    process = subprocess.Popen([*program, *user, *options])
    deadline = time.monotonic() + node_module.START_SECONDS_MAX
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    return process
