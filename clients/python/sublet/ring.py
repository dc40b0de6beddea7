"""The ring and its pools."""

import ctypes
import functools
import os
import threading
import uuid

from .answers import OK, RingError, Shape, is_refusal, put_of, run_of_get, run_of_put
from .batch import Batch
from .library import RunBits, load
from .pages import PAGE_BYTES, joined, key_of, object_of, page_of, run_of

PERSISTENT, SHARED, KEEPING = 1, 2, 4


FORKED = -9


def in_turn(verb):
    """One thread after the other uses a ring."""

    @functools.wraps(verb)
    def taken(self, *arguments, **named):
        with self._turn():
            return verb(self, *arguments, **named)

    return taken


class Ring:
    """A connection to a tenant's ring. Threads take turns; a process that is forked from this one opens a ring of its own."""

    def __init__(self, path, entries=0, page_slots=0):
        self._library = load()
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._pointer = ctypes.c_void_p()
        place = ctypes.byref(self._pointer)
        code = self._library.sublet_connect(os.fsencode(path), entries, page_slots, place)
        if code < 0:
            raise RingError(code, f"{os.fsdecode(path)}: {self._text(code)}")

    def close(self):
        """Ends the connection, and with it every pool of it that has no name."""
        pointer, self._pointer = self._pointer, ctypes.c_void_p()
        self._library.sublet_close(pointer)

    def _turn(self):
        """The right to use the ring, to be used in a `with`. Of a process that was forked nobody would give it back."""
        if os.getpid() != self._process:
            self._check(FORKED)
        return self._lock

    @property
    def _ring(self):
        if not self._pointer:
            raise ValueError("the ring is closed; make another")
        return self._pointer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    @in_turn
    def shape(self):
        """How large the ring is: `entries` and `page_slots`. The daemon may grant less than was asked for."""
        entries, page_slots = ctypes.c_uint32(), ctypes.c_uint32()
        places = ctypes.byref(entries), ctypes.byref(page_slots)
        self._check(self._library.sublet_shape(self._ring, *places))
        return Shape(entries.value, page_slots.value)

    @in_turn
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

    def _refusal(self, code):
        """The refusal that this number stands for, if it does; that is an answer, no error."""
        if is_refusal(code):
            return RingError(code, self._text(code))
        self._check(code)
        return None

    def _text(self, code):
        text = ctypes.create_string_buffer(256)
        self._library.sublet_text(code, text, len(text))
        return text.value.decode()


class Pool:
    """A pool of this connection."""

    def __init__(self, ring, handle):
        self._ring = ring
        self._library = ring._library
        self._turn = ring._turn
        self.handle = handle

    @in_turn
    def put(self, object, index, page):
        """Stores a page; what it returns is true if the page is stored. Else keep it: an older one is gone all the
        same, and `refusal` says why.
        """
        key, page = key_of(self.handle, object, index), page_of(page)
        code = self._library.sublet_put(self._ring._ring, key, page)
        return put_of(code, self._ring._refusal(code))

    @in_turn
    def get(self, object, index):
        """The page, or None."""
        page = ctypes.create_string_buffer(PAGE_BYTES)
        key = key_of(self.handle, object, index)
        code = self._library.sublet_get(self._ring._ring, key, page)
        return page.raw if self._ring._check(code) == OK else None

    @in_turn
    def put_run(self, object, index, pages):
        """Stores pages at indices that follow each other, 64 at most; says of each whether it is stored. `refusal` of
        that list says why the first was refused that was, `replaced` which replaced older ones.
        """
        key, run = key_of(self.handle, object, index), RunBits()
        pages, count = joined(pages), len(pages)
        place = ctypes.byref(run)
        code = self._library.sublet_put_run(self._ring._ring, key, count, pages, place)
        return run_of_put(count, run, self._ring._refusal(code))

    @in_turn
    def get_run(self, object, index, count):
        """The pages at indices that follow each other, 64 at most, None for each that is not there. `refusal` of that
        list says why the first was refused that was.
        """
        key, run = key_of(self.handle, object, index), RunBits()
        pages = ctypes.create_string_buffer(PAGE_BYTES * run_of(count))
        place = ctypes.byref(run)
        code = self._library.sublet_get_run(self._ring._ring, key, count, pages, place)
        pages = [pages[n * PAGE_BYTES : (n + 1) * PAGE_BYTES] for n in range(count)]
        return run_of_get(pages, run, self._ring._refusal(code))

    @in_turn
    def flush_page(self, object, index):
        """Forgets a page; that it was not there is fine."""
        key = key_of(self.handle, object, index)
        self._ring._check(self._library.sublet_flush_page(self._ring._ring, key))

    @in_turn
    def flush_object(self, object):
        """Forgets all pages of an object."""
        ring, object = self._ring._ring, object_of(object)
        self._ring._check(self._library.sublet_flush_object(ring, self.handle, object))

    @in_turn
    def destroy(self):
        """Forgets the pool and all its pages."""
        self._ring._check(self._library.sublet_destroy_pool(self._ring._ring, self.handle))
