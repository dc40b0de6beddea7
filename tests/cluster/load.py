"""Clients of a disk and of rings, which write down what they ask for and get. They and the daemons take less than a
third of the CPU."""

import contextlib
import os
import pathlib
import random
import threading
import time

from nbd import Nbd
from nodes import add_disk
from stamped import PAGE, page, said
from workers import Workers

RUN_PAGES_MAX = 16
OBJECT = 7
# Pages of a ring's pools, by what they promise.
RING_PAGES = {"persistent": 512, "keeping": 4096, "taking": 4096}
# The share of the CPU that clients and daemons take at most together. Tests run beside each other.
SHARE_MAX = 0.3
SPAN_SECONDS = 1


class Pace:
    """Holds clients back, so that they and the daemons take a share of the CPU at most in each second."""

    def __init__(self, nodes, share=SHARE_MAX):
        self._nodes, self._share = nodes, share * len(os.sched_getaffinity(0))
        self._lock, self._ticks = threading.Lock(), {}
        # When it looked last, and what was spent then; the beginning of this span; and the first one's.
        self._looked, self._last = time.monotonic(), self._spent()
        self._began, self._spent_before = self._first = self._looked, self._last

    def wait(self, ending):
        """Waits until there is something to spend, or it ends."""
        while self._is_spent() and not ending.wait(0.02):
            pass

    def taken(self):
        """The share of the CPU that was taken since the beginning."""
        began, before = self._first
        return (self._spent() - before) / (time.monotonic() - began) / len(os.sched_getaffinity(0))

    def _is_spent(self):
        with self._lock:
            now = time.monotonic()
            if now - self._looked > SPAN_SECONDS / 20:
                self._looked, self._last = now, self._spent()
            span = now - self._began
            is_spent = self._last - self._spent_before > self._share * span
            if span > SPAN_SECONDS and not is_spent:
                self._began, self._spent_before = now, self._last
            return is_spent

    def _spent(self):
        """Seconds of CPU that this process and all daemons have taken, those that ended, too."""
        for node in self._nodes:
            try:
                stat = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self._ticks[node.process.pid] = int(stat[11]) + int(stat[12])
        return time.process_time() + sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")


class DiskPart:
    """A part of a disk, which one client has for itself."""

    def __init__(self, disk, pool, pages, history, dice):
        self.disk, self.pool, self.pages, self.history, self.dice = disk, pool, pages, history, dice
        self._nbd = None
        # How often each page was written.
        self._versions = dict.fromkeys(pages, 0)

    def open(self):
        self._nbd = Nbd(self.disk.nbd, self.disk.name)
        return self

    def close(self):
        self._nbd.close()

    def work(self):
        count = self.dice.randint(1, RUN_PAGES_MAX)
        first = self.dice.randrange(self.pages.start, self.pages.stop - count)
        run = range(first, first + count)
        self.write(run) if self.dice.random() < 0.2 else self.read(run)

    def read_all(self):
        for first in range(self.pages.start, self.pages.stop, 32):
            self.read(range(first, min(first + 32, self.pages.stop)))

    def read(self, run):
        with self.history.call("read", self.pool, run.start) as call:
            data = self._nbd.read(run.start * PAGE, len(run) * PAGE)
            pages = (data[n : n + PAGE] for n in range(0, len(data), PAGE))
            call["found"] = [said(self.pool, number, each) for number, each in zip(run, pages)]

    def write(self, run):
        for number in run:
            self._versions[number] += 1
        versions = [self._versions[number] for number in run]
        data = b"".join(page(self.pool, number, version) for number, version in zip(run, versions))
        with self.history.call("write", self.pool, run.start) as call:
            call["wrote"] = versions
            self._nbd.write(run.start * PAGE, data)


class RingPools:
    """A connection to a ring, and a pool of each kind."""

    def __init__(self, sublet, path, names, history, dice):
        self._sublet, self._path, self._names = sublet, path, names
        self.history, self.dice = history, dice
        self._ring, self._pools, self._versions = None, {}, {}

    def open(self):
        self._ring = self._sublet.Ring(self._path)
        kinds = {"persistent": dict(persistent=True), "keeping": dict(keeping=True), "taking": {}}
        self._pools = {kind: self._ring.create_pool(**how) for kind, how in kinds.items()}
        return self

    def close(self):
        self._ring.close()

    def work(self):
        kind = self.dice.choice(list(RING_PAGES))
        count = self.dice.randint(1, RUN_PAGES_MAX)
        first = self.dice.randrange(RING_PAGES[kind] - count)
        verb = self.dice.choices([self.get, self.put, self.flush], [5, 4, 1])[0]
        verb(kind, range(first, first + count))

    def read_all(self):
        for kind, pages in RING_PAGES.items():
            for first in range(0, pages, 32):
                self.get(kind, range(first, first + 32))

    def get(self, kind, run):
        pool = self._names[kind]
        with self.history.call("read", pool, run.start) as call:
            pages = self._pools[kind].get_run(OBJECT, run.start, len(run))
            call["found"] = [said(pool, number, each) for number, each in zip(run, pages)]

    def put(self, kind, run):
        pool, versions = self._names[kind], [self._next(kind, number) for number in run]
        pages = [page(pool, number, version) for number, version in zip(run, versions)]
        with self.history.call("write", pool, run.start) as call:
            call["wrote"] = versions
            stored = self._pools[kind].put_run(OBJECT, run.start, pages)
            call["wrote"] = [version if is_stored else None for version, is_stored in zip(versions, stored)]

    def flush(self, kind, run):
        with self.history.call("flush", self._names[kind], run.start) as call:
            call["pages"] = 1
            self._pools[kind].flush_page(OBJECT, run.start)

    def _next(self, kind, number):
        version = self._versions[kind, number] = self._versions.get((kind, number), 0) + 1
        return version


class Load(Workers):
    """Clients of one node, a thread each: some have a part of its disk, some have pools of its ring."""

    def __init__(self, node, size, history, pace, sublet, disk_clients=4, ring_clients=2):
        super().__init__(disk_clients + ring_clients)
        self._pace = pace
        pool, pages = f"{node.name}/disk", size // PAGE
        content = b"".join(page(pool, number, 0) for number in range(pages))
        self.disk = add_disk(node, "disk", size, content)
        part = pages // disk_clients
        self.clients = []
        for number in range(disk_clients):
            of_client = history.of(f"{node.name}-disk-{number}", {pool: "disk"})
            run = range(number * part, (number + 1) * part)
            self.clients.append(DiskPart(self.disk, pool, run, of_client, random.Random(number)))
        for number in range(ring_clients):
            names = {kind: f"{node.name}/ring-{number}/{kind}" for kind in RING_PAGES}
            of_client = history.of(f"{node.name}-ring-{number}", {name: kind for kind, name in names.items()})
            dice = random.Random(disk_clients + number)
            self.clients.append(RingPools(sublet, node.folder / "ring.sock", names, of_client, dice))
        for client in self.clients:
            client.open()

    def begin(self, number):
        return contextlib.nullcontext(self.clients[number])

    def work(self, number, client):
        self._pace.wait(self._ending)
        client.work()

    def read_all(self):
        """Reads everything, after the threads have ended, and closes what is written down."""
        for client in self.clients:
            client.read_all()
            client.close()
            client.history.close()
