"""Input of every bad kind: the error that memcached gives, bounded memory, nobody else disturbed."""

import random
import resource
import signal
import socket
import struct

import pytest

MIB = 1024 * 1024
LINES = {
    b"nonsense\r\n": b"ERROR",
    b"GET k\r\n": b"ERROR",
    b"set k 0 0 -1\r\n": b"CLIENT_ERROR bad command line format",
    b"set k x 0 1\r\nx\r\n": b"CLIENT_ERROR bad command line format",
    b"set k 0 x 1\r\nx\r\n": b"CLIENT_ERROR bad command line format",
    b"set k 0 0 3\r\nabcdef\r\n": b"CLIENT_ERROR bad data chunk",
    b"get " + b"k" * 251 + b"\r\n": b"CLIENT_ERROR bad command line format",
    b"incr k x\r\n": b"CLIENT_ERROR invalid numeric delta argument",
    b"touch k x\r\n": b"CLIENT_ERROR invalid exptime argument",
    b"flush_all x\r\n": b"CLIENT_ERROR invalid exptime argument",
    b"shutdown\r\n": b"ERROR: shutdown not enabled",
}


@pytest.fixture
def bystander(node):
    """Another client, who must not notice anything."""
    with node.wire() as wire:
        assert wire.ask(b"set bystander 0 0 2\r\nok\r\n") == b"STORED"
        yield wire
        wire.send(b"get bystander\r\n")
        assert wire.lines_to(b"END") == [b"VALUE bystander 0 2", b"ok"]


@pytest.mark.parametrize("said", LINES, ids=lambda said: repr(said[:20]))
def test_a_bad_line_has_its_error(node, bystander, said):
    with node.wire() as wire:
        heard = wire.ask(said)
        assert heard in (LINES[said], LINES[said].replace(b"ERROR:", b"SERVER_ERROR:"))


def test_a_line_without_end_is_closed(node, bystander):
    with node.wire() as wire:
        wire.send(b"x" * 5000)
        assert wire.is_closed()


def test_http_is_closed(node, bystander):
    with node.wire() as wire:
        wire.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.is_closed()


@pytest.mark.parametrize("seed", range(20))
def test_garbage(node, bystander, seed):
    luck = random.Random(seed)
    for _ in range(20):
        with node.wire() as wire:
            beginning = luck.choice([b"", b"\x80", b"set k 0 0 9\r\n", b"mg k ", b"\x80\x01\x00\x03"])
            try:
                wire.send(beginning + luck.randbytes(luck.randint(1, 5000)))
                wire.send(luck.randbytes(luck.randint(1, 5000)))
            except (ConnectionResetError, BrokenPipeError):
                pass


def test_a_client_that_stops_in_mid_value(node, bystander):
    held = [node.wire() for _ in range(100)]
    for n, wire in enumerate(held):
        wire.send(b"set k%d 0 0 1000000\r\n" % n + b"x" * 500)
    bystander.send(b"get k0\r\n")
    assert bystander.lines_to(b"END") == []
    for wire in held:
        wire.sock.close()


def test_promises_of_large_values_cost_no_memory(node, bystander):
    before = node.rss_bytes()
    held = [node.wire() for _ in range(300)]
    for wire in held:
        wire.send(b"set k 0 0 1000000\r\nx")
    bystander.send(b"mn\r\n")
    assert bystander.line() == b"MN"
    assert node.rss_bytes() - before < 128 * MIB
    for wire in held:
        wire.sock.close()


def test_a_reader_that_never_reads(node, bystander):
    bystander.send(b"set large 0 0 1000000\r\n" + b"x" * 1_000_000 + b"\r\n")
    assert bystander.line() == b"STORED"
    before = node.rss_bytes()
    with node.wire() as wire:
        wire.sock.settimeout(1)
        sent = 0
        try:
            while sent < 2000:
                wire.send(b"get large\r\n" * 10)
                sent += 10
        except TimeoutError:
            pass
        bystander.send(b"mn\r\n")
        assert bystander.line() == b"MN"
        assert node.rss_bytes() - before < 128 * MIB, "replies that nobody reads fill memory"


def test_a_connection_that_is_reset(node, bystander):
    for _ in range(100):
        wire = node.wire()
        wire.send(b"set k 0 0 5\r\nhello\r\nget k\r\n")
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.sock.close()


def test_too_many_connections_are_told_so(nodes):
    node = nodes("-c", "60")
    held, told = [], 0
    for _ in range(100):
        wire = node.wire()
        wire.send(b"mn\r\n")
        try:
            told += wire.line().startswith(b"ERROR Too many open connections")
            held.append(wire)
        except (EOFError, ConnectionResetError):
            told += 1
    assert told >= 30
    for wire in held:
        wire.sock.close()
    with node.wire() as wire:
        assert wire.ask(b"mn\r\n") in (b"MN", b"ERROR Too many open connections")


def test_two_thousand_idle_connections(nodes):
    needed = 2000 + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed:
        pytest.skip(f"{hard} open files are the most here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    node = nodes("-c", "4000")
    held = [node.wire() for _ in range(2000)]
    for wire in held[::100]:
        assert wire.ask(b"mn\r\n") == b"MN"
    for wire in held:
        wire.sock.close()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(node, sign):
    with node.wire() as wire:
        assert wire.ask(b"set k 0 0 1\r\nx\r\n") == b"STORED"
        assert node.stop(sign) in (0, -sign)
        assert wire.is_closed()
