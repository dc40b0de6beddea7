"""libmemcached's tools and nc, as a person would use them."""

import shutil
import subprocess

import pytest

from node import is_peer

BOTH = pytest.mark.parametrize("protocol", [[], ["--binary"]], ids=["text", "binary"])


def run(*words, good=True, stdin=None):
    """Runs a tool; returns what it said."""
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, input=stdin)
    assert (ran.returncode == 0) == good, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@BOTH
def test_a_file_s_life(node, tmp_path, protocol):
    path = tmp_path / "letter"
    path.write_text("dear all\n")
    to = ["--servers", node.name, *protocol]
    run("memccp", *to, str(path))
    assert run("memccat", *to, "letter").rstrip("\n") == "dear all"
    run("memcexist", *to, "letter")
    run("memctouch", *to, "--expire", "100", "letter")
    run("memcrm", *to, "letter")
    run("memcexist", *to, "letter", good=False)


def test_statistics_and_ping(node, text):
    text.set("k", b"1")
    assert "curr_items: 1" in run("memcstat", "--servers", node.name)
    run("memcping", "--servers", node.name)


def test_flush(node, text):
    text.set("k", b"1")
    run("memcflush", "--servers", node.name)
    assert text.get("k") is None


def test_dump(node, text):
    keys = {f"key-{n}" for n in range(50)}
    text.set_many({key: b"x" for key in keys})
    dumped = set(run("memcdump", "--servers", node.name).split())
    # A memcached dumps what it has looked through so far.
    assert dumped == keys or (is_peer() and dumped < keys)


@pytest.mark.parametrize("protocol", ["-a", "-b"])
def test_memccapable(nodes, protocol):
    node = nodes()
    said = run("memccapable", "-h", "127.0.0.1", "-p", str(node.port), protocol, "-t", "10")
    failed = [line for line in said.splitlines() if "FAIL" in line]
    assert not failed, said
    assert said.count("[pass]") > 10, said


@pytest.mark.parametrize("options", [[], ["--binary"], ["--non-blocking"]], ids=str)
@pytest.mark.parametrize("load", ["get", "set"])
def test_memcslap(node, load, options):
    run("memcslap", "--servers", node.name, "--concurrency=8", "--execute-number=500", f"--test={load}", *options)


@pytest.mark.skipif(shutil.which("nc") is None, reason="nc is not here")
def test_nc(node):
    words = ["nc", "-q", "1", "127.0.0.1", str(node.port)]
    said = run(*words, stdin="set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n")
    assert said.splitlines() == ["STORED", "VALUE k 0 5", "hello", "END"]
