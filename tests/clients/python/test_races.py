"""Many clients at once: nothing is lost, and nobody wins twice."""

import threading
from contextlib import closing

import pymemcache

THREADS = 12
TURNS = 250


def together(node, work):
    """Runs `work(client, number)` in THREADS threads that start at once; returns what each returned."""
    results, troubles = [None] * THREADS, []
    gate = threading.Barrier(THREADS)

    def run(number):
        try:
            with closing(pymemcache.Client(node.address, default_noreply=False, timeout=60)) as client:
                gate.wait()
                results[number] = work(client, number)
        except BaseException as trouble:
            troubles.append(trouble)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles, troubles
    return results


def test_no_increment_is_lost(node, text):
    text.set("n", b"0")

    def count(client, number):
        return [client.incr("n", 1) for _ in range(TURNS)]

    seen = [n for each in together(node, count) for n in each]
    assert text.get("n") == b"%d" % (THREADS * TURNS)
    assert sorted(seen) == list(range(1, THREADS * TURNS + 1)), "two clients were told the same number"


def test_of_racing_cas_stores_exactly_one_wins(node, text):
    text.set("n", b"0")

    def count(client, number):
        won = lost = 0
        while won < TURNS:
            value, unique = client.gets("n")
            if client.cas("n", b"%d" % (int(value) + 1), unique):
                won += 1
            else:
                lost += 1
        return lost

    lost = sum(together(node, count))
    assert text.get("n") == b"%d" % (THREADS * TURNS)
    assert int(text.stats()[b"cas_badval"]) == lost


def test_of_racing_adds_exactly_one_wins(node):
    def race(client, number):
        return [client.add(f"k{turn}", b"%d" % number) for turn in range(TURNS)]

    results = together(node, race)
    for turn in range(TURNS):
        assert sum(each[turn] for each in results) == 1
    with closing(pymemcache.Client(node.address)) as client:
        for turn in range(TURNS):
            assert results[int(client.get(f"k{turn}"))][turn], "another's value stands there"


def test_of_racing_deletes_exactly_one_wins(node, text):
    text.set_many({f"k{turn}": b"x" for turn in range(TURNS)})
    results = together(node, lambda client, _: [client.delete(f"k{turn}") for turn in range(TURNS)])
    for turn in range(TURNS):
        assert sum(each[turn] for each in results) == 1


def test_no_append_is_lost(node, text):
    text.set("k", b"")

    def write(client, number):
        for turn in range(TURNS):
            assert client.append("k", b"%02d:%03d;" % (number, turn))

    together(node, write)
    pieces = text.get("k").split(b";")[:-1]
    assert len(pieces) == THREADS * TURNS
    for number in range(THREADS):
        mine = [piece for piece in pieces if piece.startswith(b"%02d:" % number)]
        assert mine == sorted(mine), "one client's appends changed their order"


def test_readers_see_whole_values_only(node, text):
    text.set("k", b"0" * 5000)

    def work(client, number):
        for turn in range(TURNS):
            if number < 3:
                client.set("k", b"%x" % ((turn + number) % 16) * 5000)
            else:
                value = client.get("k")
                assert len(value) == 5000 and len(set(value)) == 1, "a value of two writers"

    together(node, work)
