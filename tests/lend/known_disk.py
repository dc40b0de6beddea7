"""A disk whose content is known: threads read and write it at places of chance, and compare every byte."""

import contextlib
import random

from nbd import Nbd
from workers import Workers

PAGE = 4096
RUN_PAGES_MAX = 16
READS_PER_WRITE = 4


def content(size, seed=1):
    """Bytes of chance, which a seed repeats."""
    return random.Random(seed).randbytes(size)


class WrongBytes(AssertionError):
    """The disk gave other bytes than it was given."""


class KnownDisk(Workers):
    """A disk and what it should contain. Each thread has a part of it for itself, and stops at the first failure."""

    def __init__(self, disk, known, threads=4):
        super().__init__(threads)
        self.disk, self.known = disk, bytearray(known)
        self._dice = [random.Random(number) for number in range(threads)]
        # What each thread writes and has no answer for. All of it may be on the disk, or some of it, or nothing.
        self._unanswered = {}

    def start_again(self):
        """Goes on after the disk's server has died and was started again."""
        self._join()
        assert all(isinstance(failure, (OSError, EOFError)) for failure in self.failures), self.failures
        self.failures = []
        with_disk = Nbd(self.disk.nbd, self.disk.name)
        for at, data in self._unanswered.values():
            with_disk.write(at, data)
            self.known[at : at + len(data)] = data
        self._unanswered = {}
        with_disk.close()
        return self.start()

    def read_all(self, run=32 * PAGE):
        """Reads the whole disk in order, and compares."""
        with_disk = Nbd(self.disk.nbd, self.disk.name)
        for at in range(0, len(self.known), run):
            self._compare(with_disk, at, min(run, len(self.known) - at))
        with_disk.close()

    def begin(self, number):
        return contextlib.closing(Nbd(self.disk.nbd, self.disk.name))

    def work(self, number, with_disk):
        dice = self._dice[number]
        pages = len(self.known) // PAGE // len(self.counts)
        count = dice.randint(1, RUN_PAGES_MAX)
        at = (number * pages + dice.randrange(pages - count)) * PAGE
        if dice.randrange(READS_PER_WRITE + 1):
            self._compare(with_disk, at, count * PAGE)
            return
        data = dice.randbytes(count * PAGE)
        self._unanswered[number] = at, data
        with_disk.write(at, data)
        self.known[at : at + len(data)] = self._unanswered.pop(number)[1]

    def _compare(self, with_disk, at, count):
        got = with_disk.read(at, count)
        if got != self.known[at : at + count]:
            wrong = [n for n in range(0, count, PAGE) if got[n : n + PAGE] != self.known[at + n : at + n + PAGE]]
            raise WrongBytes(f"{self.disk.name}: {len(wrong)} wrong pages, the first at {at + wrong[0]}")
