"""Random operations through two clients and two protocols, against a dict.

RANDOM_SECONDS runs it for so long instead of OPERATIONS; RANDOM_SEED repeats a run.
"""

import os
import random
import time

import pylibmc
import pymemcache

from node import is_peer

OPERATIONS = 100_000
KEYS = [f"key:{n}" for n in range(500)]


class Model:
    """What memcached would hold, values as bytes."""

    def __init__(self):
        self.items = {}

    def set(self, key, value):
        self.items[key] = value
        return True

    def add(self, key, value):
        if key in self.items:
            return False
        return self.set(key, value)

    def replace(self, key, value):
        if key not in self.items:
            return False
        return self.set(key, value)

    def append(self, key, value):
        if key not in self.items:
            return False
        return self.set(key, self.items[key] + value)

    def prepend(self, key, value):
        if key not in self.items:
            return False
        return self.set(key, value + self.items[key])

    def get(self, key):
        return self.items.get(key)

    def get_many(self, keys):
        return {key: self.items[key] for key in keys if key in self.items}

    def delete(self, key):
        return self.items.pop(key, None) is not None

    def count(self, key, by):
        """incr, or decr for a negative `by`; None where the key is missing or no number."""
        value = self.items.get(key)
        if value is None or not value.strip().isdigit() or int(value) >= 2**64 or len(value) > 20:
            return None
        number = (int(value) + by) % 2**64 if by >= 0 else max(0, int(value) + by)
        digits = b"%d" % number
        # memcached pads a shorter number with spaces up to its old length; both forms are right.
        self.items[key] = digits
        return number


class Text:
    """pymemcache, with the model's verbs."""

    def __init__(self, node):
        self.client = pymemcache.Client(node.address, default_noreply=False, timeout=60)
        for verb in ("set", "add", "replace", "append", "prepend", "get", "get_many", "delete"):
            setattr(self, verb, getattr(self.client, verb))

    def count(self, key, by):
        return self.client.incr(key, by) if by >= 0 else self.client.decr(key, -by)


class Binary:
    """pylibmc (libmemcached) over the binary protocol, with the model's verbs."""

    def __init__(self, node):
        self.client = pylibmc.Client([node.name], binary=True, behaviors={"tcp_nodelay": True})
        for verb in ("set", "add", "append", "prepend", "get", "delete"):
            setattr(self, verb, getattr(self.client, verb))
        self.get_many = self.client.get_multi

    def replace(self, key, value):
        try:
            return self.client.replace(key, value)
        except pylibmc.NotFound:
            return False

    def count(self, key, by):
        try:
            return self.client.incr(key, by) if by >= 0 else self.client.decr(key, -by)
        except pylibmc.NotFound:
            return None


def random_value(luck):
    size = luck.choice([0, 1, 5, 100, 100, 100, 1000, 5000, 50_000])
    return luck.randbytes(size)


def random_operation(luck):
    key = luck.choice(KEYS)
    verb = luck.choices(
        ["get", "set", "get_many", "add", "replace", "append", "prepend", "delete", "seed", "count"],
        [40, 20, 5, 5, 5, 4, 4, 6, 4, 7],
    )[0]
    if verb == "get_many":
        return verb, (luck.sample(KEYS, luck.randint(1, 50)),)
    if verb in ("get", "delete"):
        return verb, (key,)
    if verb == "seed":
        return "set", (key + ":n", b"%d" % luck.choice([0, 1, 99, 10**9, 2**64 - 1]))
    if verb == "count":
        return verb, (key + ":n", luck.choice([1, 5, 1000, 2**31 - 1, -1, -7, -(10**6)]))
    if verb in ("append", "prepend"):
        return verb, (key, luck.randbytes(luck.randint(0, 20)))
    return verb, (key, random_value(luck))


def turns():
    """Numbers of operations, until there were enough or the time is over."""
    seconds = os.environ.get("RANDOM_SECONDS")
    deadline = time.monotonic() + float(seconds or 0)
    number = 0
    while (time.monotonic() < deadline) if seconds else (number < OPERATIONS):
        yield number
        number += 1


def same(wanted, heard):
    if isinstance(wanted, bytes) and isinstance(heard, bytes) and wanted != heard:
        # A number that memcached padded.
        return wanted.isdigit() and heard.rstrip(b" ") == wanted
    if wanted is False:
        return not heard
    return wanted == heard


def test_random_operations_agree_with_a_dict(node):
    seed = int(os.environ.get("RANDOM_SEED", random.randrange(2**32)))
    luck = random.Random(seed)
    model, text, binary = Model(), Text(node), Binary(node)
    for number in turns():
        verb, arguments = random_operation(luck)
        client = luck.choice([text, binary])
        wanted, heard = getattr(model, verb)(*arguments), getattr(client, verb)(*arguments)
        assert same(wanted, heard), (
            f"RANDOM_SEED={seed} operation {number}: {type(client).__name__}.{verb}{arguments!r:.200} "
            f"gave {heard!r:.200}, the dict {wanted!r:.200}"
        )
        # A memcached's flush_all misses items of the same second now and then.
        if not is_peer() and luck.random() < 0.0005:
            text.client.flush_all()
            model.items.clear()
    statistics = text.client.stats()
    assert statistics[b"evictions"] == 0, "the model needs a node that evicts nothing"
