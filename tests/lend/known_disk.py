"""A disk whose content is known: threads read and write it at places of chance, and compare every byte."""

import random
import threading
import time

from nbd import Nbd

PAGE = 4096
RUN_PAGES_MAX = 16
READS_PER_WRITE = 4


def content(size, seed=1):
    """Bytes of chance, which a seed repeats."""
    return random.Random(seed).randbytes(size)


class WrongBytes(AssertionError):
    """The disk gave other bytes than it was given."""


class KnownDisk:
    """A disk and what it should contain. Each thread has a part of it for itself, and stops at the first failure."""

    def __init__(self, disk, known, threads=4):
        self.disk, self.known = disk, bytearray(known)
        self.counts, self.failures = [0] * threads, []
        # What each thread writes and has no answer for. All of it may be on the disk, or some of it, or nothing.
        self._unanswered = {}
        self._ending = threading.Event()
        self._threads = []

    def start(self):
        for number in range(len(self.counts)):
            self._threads.append(threading.Thread(target=self._work, args=(number,), daemon=True))
            self._threads[-1].start()
        return self

    def start_again(self):
        """Goes on after the disk's server has died and was started again."""
        for thread in self._threads:
            thread.join(120)
        assert all(isinstance(failure, (OSError, EOFError)) for failure in self.failures), self.failures
        self._threads, self.failures = [], []
        with_disk = Nbd(self.disk.nbd, self.disk.name)
        for at, data in self._unanswered.values():
            with_disk.write(at, data)
            self.known[at : at + len(data)] = data
        self._unanswered = {}
        with_disk.close()
        return self.start()

    def stop(self):
        """Ends the threads. Fails if one has failed."""
        self._ending.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a request is not answered in 120 s"
        self._threads = []
        self._ending.clear()
        self.check()

    def check(self):
        """Fails if a request has failed, or a byte was wrong."""
        if self.failures:
            raise self.failures[0]

    def requests(self):
        self.check()
        return sum(self.counts)

    def goes_on(self, seconds, least=1):
        """Lets it work for so long, and fails if fewer than `least` requests are answered meanwhile."""
        before = self.requests()
        time.sleep(seconds)
        answered = self.requests() - before
        assert answered >= least, f"{answered} requests were answered in {seconds} s"
        return answered

    def read_all(self, run=32 * PAGE):
        """Reads the whole disk in order, and compares."""
        with_disk = Nbd(self.disk.nbd, self.disk.name)
        for at in range(0, len(self.known), run):
            self._compare(with_disk, at, min(run, len(self.known) - at))
        with_disk.close()

    def _work(self, number):
        try:
            self._until_ended(number)
        except Exception as failure:
            self.failures.append(failure)

    def _until_ended(self, number):
        with_disk, dice = Nbd(self.disk.nbd, self.disk.name), random.Random(number)
        pages = len(self.known) // PAGE // len(self.counts)
        first = number * pages
        while not self._ending.is_set():
            count = dice.randint(1, RUN_PAGES_MAX)
            at = (first + dice.randrange(pages - count)) * PAGE
            if dice.randrange(READS_PER_WRITE + 1):
                self._compare(with_disk, at, count * PAGE)
            else:
                data = dice.randbytes(count * PAGE)
                self._unanswered[number] = at, data
                with_disk.write(at, data)
                self.known[at : at + len(data)] = self._unanswered.pop(number)[1]
            self.counts[number] += 1
        with_disk.close()

    def _compare(self, with_disk, at, count):
        got = with_disk.read(at, count)
        if got != self.known[at : at + count]:
            wrong = [n for n in range(0, count, PAGE) if got[n : n + PAGE] != self.known[at + n : at + n + PAGE]]
            raise WrongBytes(f"{self.disk.name}: {len(wrong)} wrong pages, the first at {at + wrong[0]}")
