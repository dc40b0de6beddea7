"""Two nodes behind a client's consistent hashing: one ends, the other's items stay."""

from contextlib import closing

import pylibmc
import pymemcache
import pytest
from pymemcache.client.hash import HashClient

import node as node_module

KEYS = [f"key-{n}" for n in range(1000)]


@pytest.fixture(params=node_module.faces())
def pair(request, nodes):
    return nodes(face=request.param), nodes(face=request.param)


def held_by(node):
    with closing(pymemcache.Client(node.address, timeout=20)) as client:
        return set(client.get_many(KEYS))


def test_pymemcache_hash_client(pair):
    first, second = pair
    client = HashClient([first.address, second.address], ignore_exc=True, retry_attempts=0, dead_timeout=0.1, timeout=5)
    client.set_many({key: key.encode() for key in KEYS}, noreply=False)
    on_first, on_second = held_by(first), held_by(second)
    assert on_first | on_second == set(KEYS)
    assert not on_first & on_second
    assert min(len(on_first), len(on_second)) > 300, "neither node has all"
    second.kill()
    for key in on_first:
        assert client.get(key) == key.encode()
    for key in list(on_second)[:20]:
        assert client.get(key) is None
    client.close()


@pytest.mark.parametrize("binary", [False, True])
def test_libmemcached_ketama_with_a_node_that_comes_back(pair, binary):
    first, second = pair
    behaviors = {"ketama": True, "tcp_nodelay": True, "dead_timeout": 1, "retry_timeout": 1, "remove_failed": 1}
    client = pylibmc.Client([first.name, second.name], binary=binary, behaviors=behaviors)
    assert client.set_multi({key: key for key in KEYS}) == []
    on_first, on_second = held_by(first), held_by(second)
    assert min(len(on_first), len(on_second)) > 300
    second.kill()
    survivors = 0
    for key in on_first:
        try:
            survivors += client.get(key) == key
        except pylibmc.Error:
            pass
    assert survivors == len(on_first), "one node's end took another's items"
    second.start()
    fresh = pylibmc.Client([first.name, second.name], binary=binary, behaviors=behaviors)
    assert set(fresh.get_multi(KEYS)) == on_first, "a node that comes back is empty"
    assert fresh.set_multi({key: "again" for key in KEYS}) == []
    assert held_by(first) == on_first and held_by(second) == on_second, "the same key goes to the same node"
