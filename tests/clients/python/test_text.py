"""pymemcache: the text protocol."""

import time
from contextlib import closing

import pymemcache
import pytest
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

KIB = 1024
MIB = 1024 * KIB


def gat(client, key, expire):
    """Get and touch, which pymemcache has no verb for."""
    reply = client.raw_command(f"gat {expire} {key}".encode(), b"END\r\n")
    return reply.split(b"\r\n")[1] if reply else None


def wait_until_gone(read):
    """Waits until `read` misses; returns after how many seconds."""
    start = time.monotonic()
    while read() is not None:
        assert time.monotonic() - start < 10, "it never expired"
        time.sleep(0.05)
    return time.monotonic() - start


@pytest.mark.parametrize("value", [b"", b"x", b"\r\n", b"END\r\n", bytes(range(256)), b"x" * (100 * KIB)])
def test_a_value_comes_back_as_it_was(text, value):
    assert text.set("k", value)
    assert text.get("k") == value


def test_a_miss_is_none(text):
    assert text.get("nothing") is None
    assert text.get("nothing", b"else") == b"else"


def test_set_replaces_and_flags_come_back(text):
    assert text.set("k", b"1", flags=1)
    assert text.set("k", b"2", flags=4294967295)
    assert text.raw_command(b"get k", b"END\r\n") == b"VALUE k 4294967295 1\r\n2\r\n"


def test_add_stores_only_what_is_not_there(text):
    assert text.add("k", b"1") is True
    assert text.add("k", b"2") is False
    assert text.get("k") == b"1"


def test_replace_stores_only_what_is_there(text):
    assert text.replace("k", b"1") is False
    text.set("k", b"1")
    assert text.replace("k", b"2") is True
    assert text.get("k") == b"2"


def test_append_and_prepend_keep_flags(text):
    assert text.append("k", b"x") is False
    assert text.prepend("k", b"x") is False
    text.set("k", b"2", flags=7)
    assert text.append("k", b"3", flags=9) is True
    assert text.prepend("k", b"1", flags=9) is True
    assert text.raw_command(b"get k", b"END\r\n") == b"VALUE k 7 3\r\n123\r\n"


def test_cas_wins_once(text):
    assert text.cas("k", b"x", b"1") is None
    text.set("k", b"1")
    value, unique = text.gets("k")
    assert value == b"1"
    assert text.cas("k", b"2", unique) is True
    assert text.cas("k", b"3", unique) is False
    assert text.get("k") == b"2"


@pytest.mark.parametrize("change", ["set", "append", "prepend", "incr", "decr", "replace"])
def test_every_change_makes_a_cas_stale(text, change):
    text.set("k", b"5")
    _, unique = text.gets("k")
    if change in ("incr", "decr"):
        getattr(text, change)("k", 1)
    else:
        getattr(text, change)("k", b"5")
    assert text.cas("k", b"stale", unique) is False


@pytest.mark.parametrize("look", [lambda c: c.touch("k", 100), lambda c: c.get("k"), lambda c: gat(c, "k", 100)])
def test_no_look_makes_a_cas_stale(text, look):
    text.set("k", b"5")
    _, unique = text.gets("k")
    look(text)
    assert text.cas("k", b"won", unique) is True


def test_delete_says_whether_it_was_there(text):
    assert text.delete("k") is False
    text.set("k", b"1")
    assert text.delete("k") is True
    assert text.get("k") is None


def test_counters_wrap_above_and_stop_below(text):
    assert text.incr("k", 1) is None
    text.set("k", b"18446744073709551615")
    assert text.incr("k", 1) == 0
    assert text.incr("k", 10) == 10
    assert text.decr("k", 3) == 7
    assert text.decr("k", 100) == 0
    text.set("k", b"word")
    with pytest.raises(MemcacheClientError, match="non-numeric"):
        text.incr("k", 1)


def test_many_at_once(text):
    values = {f"key-{n}": b"v%d" % n for n in range(1000)}
    assert text.set_many(values) == []
    assert text.get_many([*values, "nothing"]) == values
    assert len(text.gets_many(values)) == 1000
    assert text.delete_many(list(values)[:500])
    assert len(text.get_many(values)) == 500


def test_a_multiget_of_128_kib_of_keys(text):
    keys = [f"{n:0>200}" for n in range(700)]
    text.set_many({key: b"v" for key in keys}, noreply=True)
    assert len(text.get_many(keys)) == 700


def test_expiry_in_seconds(text):
    text.set("brief", b"1", expire=2)
    text.set("long", b"1", expire=100)
    text.set("never", b"1", expire=0)
    assert 0.8 < wait_until_gone(lambda: text.get("brief")) < 4
    assert text.get("long") == text.get("never") == b"1"


def test_expiry_as_unix_time_and_in_the_past(text):
    text.set("later", b"1", expire=int(time.time()) + 100)
    text.set("past", b"1", expire=int(time.time()) - 100)
    text.set("negative", b"1", expire=-1)
    assert text.get("later") == b"1"
    assert text.get("past") is None
    assert text.get("negative") is None


def test_touch_and_gat_change_the_expiry(text):
    assert text.touch("k", 10) is False
    text.set("k", b"1", expire=1)
    assert text.touch("k", 100) is True
    text.set("j", b"1", expire=1)
    assert gat(text, "j", 100) == b"1"
    time.sleep(2.2)
    assert text.get("k") == text.get("j") == b"1"
    assert gat(text, "k", 1) == b"1"
    wait_until_gone(lambda: text.get("k"))


def test_flush_all_hides_everything_before_it(text):
    text.set_many({f"k{n}": b"1" for n in range(100)})
    assert text.flush_all()
    assert text.get_many([f"k{n}" for n in range(100)]) == {}


def test_flush_all_can_wait(text):
    text.set("k", b"1")
    assert text.flush_all(delay=2)
    assert text.get("k") == b"1"
    assert wait_until_gone(lambda: text.get("k")) < 4


@pytest.mark.parametrize("key", ["k" * 250, "ö".encode() * 125, b"\x01\x02"])
def test_the_longest_and_oddest_keys(node, key):
    client = pymemcache.Client(node.address, allow_unicode_keys=True, default_noreply=False, timeout=20)
    with closing(client):
        assert client.set(key, b"1")
        assert client.get(key) == b"1"


def test_a_key_of_251_is_refused_and_the_connection_stays(node):
    with node.wire() as wire:
        assert wire.ask(b"set " + b"k" * 251 + b" 0 0 1\r\nx\r\n") == b"CLIENT_ERROR bad command line format"
        # What stood behind the line was its value; older memcacheds read it as a command.
        assert wire.ask(b"mn\r\n") in (b"MN", b"ERROR")
        assert wire.ask(b"set k 0 0 1\r\nx\r\n") in (b"STORED", b"MN")


def test_the_limit_of_a_value(text):
    text.set("k", b"old")
    assert text.set("k", b"x" * (MIB - KIB))
    assert text.get("k") == b"x" * (MIB - KIB)
    with pytest.raises(MemcacheServerError, match="too large"):
        text.set("k", b"x" * (MIB + 1))
    assert text.get("k") is None, "a value that is refused for its size removes the old one"


def test_noreply_is_silent_and_done(text):
    text.set("k", b"1", noreply=True)
    text.incr("k", 41, noreply=True)
    text.append("k", b"!", noreply=True)
    assert text.get("k") == b"42!"
    text.delete("k", noreply=True)
    assert text.get("k") is None


def test_version_and_verbosity(text):
    assert text.version()
    assert text.raw_command(b"verbosity 0") == b"OK"
