"""What exporters read: names, types, and values that follow what was done."""

import re

GENERAL_NUMBERS = """
    pid uptime time curr_items total_items bytes curr_connections total_connections rejected_connections
    cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses get_expired get_flushed delete_hits delete_misses
    incr_hits incr_misses decr_hits decr_misses cas_hits cas_misses cas_badval touch_hits touch_misses
    bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num threads conn_yields evictions
    reclaimed expired_unfetched evicted_unfetched max_connections pointer_size
""".split()
SETTINGS = """
    maxbytes maxconns tcpport inter verbosity evictions domain_socket cas_enabled auth_enabled_sasl item_size_max
    flush_enabled num_threads binding_protocol tcp_backlog client_flags_size
""".split()


def statistics(wire, group=""):
    """A group of statistics, each line checked for its form."""
    wire.send(f"stats {group}".strip().encode() + b"\r\n")
    found = {}
    for line in wire.lines_to(b"END"):
        matched = re.fullmatch(r"STAT (\S+) (.*)", line.decode())
        assert matched, line
        assert matched[1] not in found, f"{matched[1]} comes twice"
        found[matched[1]] = matched[2]
    return found


def test_general_statistics_are_numbers(node):
    with node.wire() as wire:
        found = statistics(wire)
    assert [name for name in GENERAL_NUMBERS if name not in found] == []
    for name in GENERAL_NUMBERS:
        int(found[name])
    for name in ("rusage_user", "rusage_system"):
        assert re.fullmatch(r"\d+\.\d{6}", found[name])
    assert int(found["pid"]) == node.process.pid
    assert found["version"]


def test_counters_follow_what_was_done(node, text):
    text.set("k", b"0123456789")
    text.set("n", b"5")
    text.get("k")
    text.get("nothing")
    text.incr("n", 1)
    text.incr("nothing", 1)
    text.decr("n", 1)
    text.delete("nothing")
    text.touch("k", 10)
    text.touch("nothing", 10)
    _, unique = text.gets("k")
    text.cas("k", b"x", unique)
    text.cas("k", b"x", unique)
    text.cas("nothing", b"x", unique)
    with node.wire() as wire:
        found = {name: int(value) for name, value in statistics(wire).items() if value.isdigit()}
    wanted = dict(
        cmd_get=3, get_hits=2, get_misses=1, cmd_set=5, incr_hits=1, incr_misses=1, decr_hits=1, decr_misses=0,
        delete_misses=1, delete_hits=0, touch_hits=1, touch_misses=1, cmd_touch=2, cas_hits=1, cas_badval=1,
        cas_misses=1, curr_items=2, evictions=0,
    )
    assert {name: found[name] for name in wanted} == wanted
    assert found["bytes"] >= len("k0123456789") - 9 + len("n5")
    assert found["bytes_read"] > 0 and found["bytes_written"] > 0


def test_reset_zeroes_counters_and_keeps_items(node, text):
    text.set("k", b"1")
    text.get("k")
    with node.wire() as wire:
        assert wire.ask(b"stats reset\r\n") == b"RESET"
        found = statistics(wire)
    assert found["cmd_get"] == found["get_hits"] == "0"
    assert found["curr_items"] == "1"


def test_settings(node):
    with node.wire() as wire:
        found = statistics(wire, "settings")
    assert [name for name in SETTINGS if name not in found] == []
    assert found["item_size_max"] == "1048576"
    assert found["evictions"] in ("on", "off")


def test_items_and_slabs_have_whole_classes(node, text):
    text.set_many({f"k{n}": b"x" * (n * 10) for n in range(100)})
    with node.wire() as wire:
        items, slabs = statistics(wire, "items"), statistics(wire, "slabs")
        conns = statistics(wire, "conns")
    numbers = [int(value) for name, value in items.items() if name.endswith(":number")]
    assert sum(numbers) == 100
    assert all(re.fullmatch(r"items:\d+:\w+", name) for name in items)
    assert all(re.fullmatch(r"(\d+:)?\w+", name) for name in slabs)
    assert {"active_slabs", "total_malloced"} <= slabs.keys()
    ages = [int(value) for name, value in items.items() if name.endswith(":age")]
    assert ages and all(0 <= age < 3600 for age in ages)
    # Exporters take a figure that stands in both for a contradiction.
    plain = lambda names: {name.rpartition(":")[2] for name in names}
    assert plain(items) & plain(slabs) == set()
    assert any(name.endswith(":state") for name in conns)


def test_statistics_stand_in_both_protocols(node, text):
    import bmemcached

    text.set("k", b"1")
    client = bmemcached.Client((node.name,), socket_timeout=20)
    (binary,) = client.stats().values()
    client.disconnect_all()
    with node.wire() as wire:
        spoken = statistics(wire)
    assert {octets(name) for name in binary} == set(spoken)


def octets(name):
    return name.decode() if isinstance(name, bytes) else name


def test_unknown_group(node):
    with node.wire() as wire:
        assert wire.ask(b"stats nonsense\r\n") == b"ERROR"


def test_every_key_can_be_dumped(node, text):
    keys = {f"key-{n}" for n in range(500)}
    text.set_many({key: b"x" for key in keys})
    with node.wire() as wire:
        assert wire.ask(b"lru_crawler metadump all\r\n") == b"OK"
        lines = wire.lines_to(b"END")
    found = {re.match(rb"key=(\S+) exp=-1 la=\d+ cas=\d+ fetch=(?:yes|no) ", line)[1].decode() for line in lines}
    assert found == keys
