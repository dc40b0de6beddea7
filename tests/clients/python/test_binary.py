"""pylibmc (libmemcached) and bmemcached: the binary protocol, and both protocols on the same items."""

import bmemcached
import pylibmc
import pytest

MIB = 1024 * 1024


@pytest.fixture(params=["binary", "text"])
def libmemcached(request, node):
    behaviors = {"tcp_nodelay": True, "cas": True}
    return pylibmc.Client([node.name], binary=request.param == "binary", behaviors=behaviors)


@pytest.fixture
def pure(node):
    client = bmemcached.Client((node.name,), socket_timeout=20)
    yield client
    client.disconnect_all()


def test_storage(libmemcached):
    assert libmemcached.set("k", "1")
    assert libmemcached.get("k") == "1"
    assert not libmemcached.add("k", "2")
    assert libmemcached.replace("k", "3")
    assert libmemcached.append("k", "4")
    assert libmemcached.prepend("k", "2")
    assert libmemcached.get("k") == "234"
    assert libmemcached.delete("k")
    assert not libmemcached.delete("k")
    assert libmemcached.get("k") is None


def test_types_travel_in_flags(libmemcached):
    values = {"int": 12, "bytes": b"\x00\r\n\xff", "text": "ö", "list": [1, {"a": None}], "bool": True}
    assert libmemcached.set_multi(values) == []
    assert libmemcached.get_multi([*values, "nothing"]) == values


def test_counters(libmemcached):
    libmemcached.set("n", 10)
    assert libmemcached.incr("n", 32) == 42
    assert libmemcached.decr("n", 2) == 40
    with pytest.raises(pylibmc.NotFound):
        libmemcached.incr("nothing")


def test_cas(libmemcached):
    libmemcached.set("k", "1")
    value, unique = libmemcached.gets("k")
    assert value == "1"
    assert libmemcached.cas("k", "2", unique)
    assert not libmemcached.cas("k", "3", unique)
    assert libmemcached.get("k") == "2"


def test_touch_and_statistics(libmemcached):
    libmemcached.set("k", "1", time=1)
    assert libmemcached.touch("k", 100)
    ((_, statistics),) = libmemcached.get_stats()
    assert int(statistics[b"curr_items" if b"pid" in statistics else "curr_items"]) == 1


def test_a_thousand_keys_in_one_multiget(libmemcached):
    values = {f"key-{n}": f"value-{n}" for n in range(1000)}
    assert libmemcached.set_multi(values) == []
    assert libmemcached.get_multi(list(values)) == values
    assert libmemcached.delete_multi(list(values))
    assert libmemcached.get_multi(list(values)) == {}


def test_the_limit_of_a_value(libmemcached):
    assert libmemcached.set("k", b"x" * (MIB - 1024))
    assert libmemcached.get("k") == b"x" * (MIB - 1024)
    with pytest.raises(pylibmc.TooBig):
        libmemcached.set("k", b"x" * (MIB + 1))
    assert libmemcached.set("k", b"small"), "the connection is usable afterwards"


def test_pure_python_binary(pure):
    assert pure.set("k", "1", time=100)
    assert pure.get("k") == "1"
    assert not pure.add("k", "2")
    value, unique = pure.gets("k")
    assert pure.cas("k", "2", unique)
    assert not pure.cas("k", "3", unique)
    assert pure.set_multi({f"k{n}": n for n in range(200)}) == []
    assert pure.get_multi([f"k{n}" for n in range(200)]) == {f"k{n}": n for n in range(200)}
    assert pure.incr("new", 1, default=41) == 41
    assert pure.incr("new", 1) == 42
    assert pure.delete("k")
    assert pure.flush_all()
    assert pure.get("k1") is None


def test_one_protocol_reads_what_the_other_wrote(pure, text, libmemcached):
    text.set("k", b"from text", flags=0)
    assert libmemcached.get("k") == b"from text"
    pure.set("j", "from binary")
    assert text.get("j") == b"from binary"
    text.set("n", b"41")
    assert pure.incr("n", 1) == 42
    assert text.get("n") == b"42"
