"""The ring, its pools, and batches."""

import ctypes
import os
import uuid

from .library import Key, load

PAGE_BYTES = 4096
RUN_PAGES_MAX = 64

PERSISTENT, SHARED, KEEPING = 1, 2, 4
OK, REPLACED, MISS = 0, 1, 2
REFUSED_FIRST, REFUSED_LAST = -101, -163


class RingError(Exception):
    """What went wrong; `code` is the number that `sublet_ring.h` describes."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Ring:
    """A connection to a tenant's ring. For one thread at a time."""

    def __init__(self, path, entries=0, page_slots=0):
        self._library = load()
        self._pointer = ctypes.c_void_p()
        place = ctypes.byref(self._pointer)
        code = self._library.sublet_connect(os.fsencode(path), entries, page_slots, place)
        if code < 0:
            raise RingError(code, f"{os.fsdecode(path)}: {self._text(code)}")

    def close(self):
        """Ends the connection, and with it every pool of it that has no name."""
        pointer, self._pointer = self._pointer, ctypes.c_void_p()
        self._library.sublet_close(pointer)

    @property
    def _ring(self):
        if not self._pointer:
            raise ValueError("the ring is closed; make another")
        return self._pointer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def create_pool(self, *, persistent=False, keeping=False, shared=None):
        """Makes a pool, or joins the shared one of that name (a `uuid.UUID` or its text)."""
        flags = PERSISTENT * persistent | KEEPING * keeping | SHARED * (shared is not None)
        name = None if shared is None else uuid.UUID(str(shared)).bytes
        handle = ctypes.c_uint64()
        place = ctypes.byref(handle)
        self._check(self._library.sublet_create_pool(self._ring, flags, name, place))
        return Pool(self, handle.value)

    def batch(self):
        """A batch, to be used in a `with`: it is run at its end."""
        return Batch(self)

    def _check(self, code):
        if code >= 0:
            return code
        raise RingError(code, self._text(code))

    def _text(self, code):
        text = ctypes.create_string_buffer(256)
        self._library.sublet_text(code, text, len(text))
        return text.value.decode()

    def _stored(self, code):
        """Whether a put's number says that the page is stored; a refusal is an answer, no error."""
        if REFUSED_LAST <= code <= REFUSED_FIRST:
            return False
        return self._check(code) in (OK, REPLACED)


class Pool:
    """A pool of this connection."""

    def __init__(self, ring, handle):
        self._ring = ring
        self._library = ring._library
        self.handle = handle

    def put(self, object, index, page):
        """Stores a page; says whether it is stored. Else keep it: an older one is gone all the same."""
        code = self._library.sublet_put(self._ring._ring, self._key(object, index), _page(page))
        return self._ring._stored(code)

    def get(self, object, index):
        """The page, or None."""
        page = ctypes.create_string_buffer(PAGE_BYTES)
        code = self._library.sublet_get(self._ring._ring, self._key(object, index), page)
        return page.raw if self._ring._check(code) == OK else None

    def put_run(self, object, index, pages):
        """Stores pages at indices that follow each other; says of each whether it is stored."""
        _run(len(pages))
        stored = ctypes.c_uint64()
        run = b"".join(_page(page) for page in pages)
        key, count = self._key(object, index), len(pages)
        place = ctypes.byref(stored)
        code = self._library.sublet_put_run(self._ring._ring, key, count, run, place)
        self._ring._stored(code)
        return [bool(stored.value >> n & 1) for n in range(count)]

    def get_run(self, object, index, count):
        """The pages at indices that follow each other, None for each that is not there."""
        _run(count)
        hits = ctypes.c_uint64()
        run = ctypes.create_string_buffer(PAGE_BYTES * count)
        key, place = self._key(object, index), ctypes.byref(hits)
        self._ring._check(self._library.sublet_get_run(self._ring._ring, key, count, run, place))
        pages = [run.raw[n * PAGE_BYTES : (n + 1) * PAGE_BYTES] for n in range(count)]
        return [page if hits.value >> n & 1 else None for n, page in enumerate(pages)]

    def flush_page(self, object, index):
        """Forgets a page; that it was not there is fine."""
        self._ring._check(self._library.sublet_flush_page(self._ring._ring, self._key(object, index)))

    def flush_object(self, object):
        """Forgets all pages of an object."""
        object = self._key(object, 0).object
        self._ring._check(self._library.sublet_flush_object(self._ring._ring, self.handle, object))

    def destroy(self):
        """Forgets the pool and all its pages."""
        self._ring._check(self._library.sublet_destroy_pool(self._ring._ring, self.handle))

    def _key(self, object, index):
        # ctypes would cut off what does not fit, and name another page.
        _number("object", object, 64)
        _number("index", index, 32)
        return Key(self.handle, object, index)


class Batch:
    """Requests that travel together."""

    def __init__(self, ring):
        self._ring = ring
        self._library = ring._library
        self._requests = []

    def __enter__(self):
        self._ring._check(self._library.sublet_batch_begin(self._ring._ring))
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._ring._check(self._library.sublet_batch_run(self._ring._ring))
            for request in self._requests:
                request._answer(self._ring)

    def put(self, pool, object, index, page):
        """Adds a put; after the batch its `stored` says whether it is stored."""
        place = ctypes.c_void_p()
        key = pool._key(object, index)
        page = _page(page)
        added = self._library.sublet_batch_put(self._ring._ring, key, ctypes.byref(place))
        self._ring._check(added)
        ctypes.memmove(place, page, PAGE_BYTES)
        return self._add(added, is_get=False)

    def get(self, pool, object, index):
        """Adds a get; after the batch its `page` is the page, or None."""
        added = self._library.sublet_batch_get(self._ring._ring, pool._key(object, index))
        return self._add(self._ring._check(added), is_get=True)

    def flush_page(self, pool, object, index):
        """Adds a flush of a page."""
        added = self._library.sublet_batch_flush_page(self._ring._ring, pool._key(object, index))
        return self._add(self._ring._check(added), is_get=False)

    def _add(self, place, is_get):
        self._requests.append(Request(place, is_get))
        return self._requests[-1]


class Request:
    """A request of a batch, and after that its answer."""

    def __init__(self, place, is_get):
        self._place = place
        self._is_get = is_get
        self.stored = None
        self.page = None

    def _answer(self, ring):
        code = ring._library.sublet_batch_outcome(ring._ring, self._place)
        if not self._is_get:
            self.stored = ring._stored(code)
        elif ring._check(code) == OK:
            page = ring._library.sublet_batch_page(ring._ring, self._place)
            self.page = ctypes.string_at(page, PAGE_BYTES)


def _number(what, number, bits):
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{what} is a number from 0 to 2**{bits} - 1, not {number}")


def _run(count):
    if not 1 <= count <= RUN_PAGES_MAX:
        raise ValueError(f"a run has 1 to {RUN_PAGES_MAX} pages, not {count}")


def _page(page):
    page = bytes(page)
    if len(page) != PAGE_BYTES:
        raise ValueError(f"a page has {PAGE_BYTES} bytes, not {len(page)}")
    return page
