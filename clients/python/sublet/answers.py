"""What became of requests."""

from typing import NamedTuple, Optional

OK, REPLACED, MISS = 0, 1, 2
REFUSED_FIRST, REFUSED_LAST = -101, -163


class RingError(Exception):
    """What went wrong; `code` is the number that `sublet_ring.h` describes."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Shape(NamedTuple):
    """How large a ring is: how many requests a batch may hold, and how many pages."""

    entries: int
    page_slots: int


class Put(NamedTuple):
    """What became of a put; true if the page is stored. Else keep it: an older one is gone all the same."""

    stored: bool
    # Whether it is stored in place of an older one.
    replaced: bool
    # Why it is not stored: a `RingError`, or None.
    refusal: Optional[RingError]

    def __bool__(self):
        return self.stored


class Run(list):
    """What became of each page of a run: of a put whether it is stored, of a get the page or None."""

    def __init__(self, pages, run, refusal):
        super().__init__(pages)
        # Of each page of a put whether it replaced an older one.
        self.replaced = _bits(run.replaced, len(self))
        # Why the first page that was refused was refused: a `RingError`, or None.
        self.refusal = refusal
        # How many pages were stored, or hit.
        self.done_count = sum(_bits(run.done, len(self)))


def put_of(code, refusal):
    """What a lone put's number says."""
    return Put(stored=refusal is None, replaced=code == REPLACED, refusal=refusal)


def run_of_put(count, run, refusal):
    """What a put's run says of each page."""
    return Run(_bits(run.done, count), run, refusal)


def run_of_get(pages, run, refusal):
    """What a get's run says of each page; `pages` are those that may have been hit."""
    hits = _bits(run.done, len(pages))
    return Run([page if hit else None for page, hit in zip(pages, hits)], run, refusal)


def is_refusal(code):
    """Whether the daemon understood and would not."""
    return REFUSED_LAST <= code <= REFUSED_FIRST


def _bits(bits, count):
    return [bool(bits >> n & 1) for n in range(count)]
