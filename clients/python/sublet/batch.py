"""Requests that travel together."""

import ctypes

from .answers import OK, RingError, put_of, run_of_get, run_of_put
from .library import RunBits
from .pages import PAGE_BYTES, joined, key_of, object_of, page_of, run_of


class Batch:
    """Requests that are gathered in a `with`, and run together, in their order, at its end; other threads' calls wait
    until then. What they came to is asked of the `Request`s. A request that has no room raises `RingError`: run the batch, and begin another.
    """

    def __init__(self, ring):
        self._ring = ring
        self._library = ring._library
        self._requests = []

    def __enter__(self):
        self._turn = self._ring._turn()
        self._turn.acquire()
        try:
            self._ring._check(self._library.sublet_batch_begin(self._ring._ring))
        except BaseException:
            self._turn.release()
            raise
        return self

    def __exit__(self, kind, *_):
        """Runs the batch. The first request that was wrong is raised when all of them have their answers."""
        try:
            if kind is None:
                self._run()
        finally:
            self._turn.release()

    def _run(self):
        self._ring._check(self._library.sublet_batch_run(self._ring._ring))
        errors = [request._answer() for request in self._requests]
        for error in filter(None, errors):
            raise error

    def __len__(self):
        """How many requests it holds."""
        return len(self._requests)

    def put(self, pool, object, index, page):
        """Adds a put; after the batch its `stored` says whether it is stored, its `answer` all that `Pool.put` says."""
        key, page = key_of(pool.handle, object, index), page_of(page)
        slot = ctypes.c_void_p()
        added = self._library.sublet_batch_put(self._ring._ring, key, ctypes.byref(slot))
        return self._add(added, self._put_answer, slot, page)

    def put_run(self, pool, object, index, pages):
        """Adds a put of pages at indices that follow each other; after the batch its `answer` is what `Pool.put_run`
        says.
        """
        key, run, count = key_of(pool.handle, object, index), joined(pages), len(pages)
        slots = ctypes.c_void_p()
        added = self._library.sublet_batch_put_run(self._ring._ring, key, count, ctypes.byref(slots))
        return self._add(added, lambda place: self._put_run_answer(place, count), slots, run)

    def get(self, pool, object, index):
        """Adds a get; after the batch its `page` is the page, or None."""
        key = key_of(pool.handle, object, index)
        return self._add(self._library.sublet_batch_get(self._ring._ring, key), self._get_answer)

    def get_run(self, pool, object, index, count):
        """Adds a get of pages at indices that follow each other; after the batch its `answer` is what `Pool.get_run`
        says.
        """
        key, count = key_of(pool.handle, object, index), run_of(count)
        added = self._library.sublet_batch_get_run(self._ring._ring, key, count)
        return self._add(added, lambda place: self._get_run_answer(place, count))

    def flush_page(self, pool, object, index):
        """Adds a flush of a page."""
        key = key_of(pool.handle, object, index)
        return self._add(self._library.sublet_batch_flush_page(self._ring._ring, key), self._done)

    def flush_run(self, pool, object, index, count):
        """Adds a flush of pages at indices that follow each other."""
        key, count = key_of(pool.handle, object, index), run_of(count)
        added = self._library.sublet_batch_flush_run(self._ring._ring, key, count)
        return self._add(added, self._done)

    def flush_object(self, pool, object):
        """Adds a flush of all pages of an object."""
        ring, object = self._ring._ring, object_of(object)
        added = self._library.sublet_batch_flush_object(ring, pool.handle, object)
        return self._add(added, self._done)

    def _add(self, added, ask, slots=None, pages=b""):
        place = self._ring._check(added)
        if slots is not None:
            ctypes.memmove(slots, pages, len(pages))
        self._requests.append(Request(lambda: ask(place)))
        return self._requests[-1]

    def _outcome(self, place):
        return self._library.sublet_batch_outcome(self._ring._ring, place)

    def _outcome_of_run(self, place):
        run = RunBits()
        outcome = self._library.sublet_batch_outcome_of_run
        code = outcome(self._ring._ring, place, ctypes.byref(run))
        return run, self._ring._refusal(code)

    def _page(self, place, n):
        page = self._library.sublet_batch_page_of_run(self._ring._ring, place, n)
        return page and ctypes.string_at(page, PAGE_BYTES)

    def _done(self, place):
        self._ring._check(self._outcome(place))

    def _put_answer(self, place):
        code = self._outcome(place)
        return put_of(code, self._ring._refusal(code))

    def _put_run_answer(self, place, count):
        return run_of_put(count, *self._outcome_of_run(place))

    def _get_answer(self, place):
        code = self._ring._check(self._outcome(place))
        return self._page(place, 0) if code == OK else None

    def _get_run_answer(self, place, count):
        run, refusal = self._outcome_of_run(place)
        return run_of_get([self._page(place, n) for n in range(count)], run, refusal)


class Request:
    """A request of a batch, and after that its answer: what the verb of that name returns when it is called alone."""

    def __init__(self, ask):
        self._ask = ask
        self.answer = None

    @property
    def stored(self):
        """Whether the page of a put is stored; None before the batch was run."""
        return None if self.answer is None else bool(self.answer)

    @property
    def page(self):
        """The page of a get, or None."""
        return self.answer

    def _answer(self):
        """Asks for the answer; gives the error if there is none."""
        try:
            self.answer = self._ask()
        except RingError as error:
            return error
        return None
