"""The shared library's functions, as `sublet_ring.h` declares them."""

import ctypes
import ctypes.util
import os
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

VERSION = 1


class Key(Structure):
    """Which page: pool, object and index."""

    _fields_ = [("pool", c_uint64), ("object", c_uint64), ("index", c_uint32)]


class RunBits(Structure):
    """What became of each page of a run: bit n stands for page n."""

    _fields_ = [("done", c_uint64), ("replaced", c_uint64)]


FUNCTIONS = {
    "sublet_version": (c_uint32, []),
    "sublet_connect": (c_int, [c_char_p, c_uint32, c_uint32, POINTER(c_void_p)]),
    "sublet_close": (None, [c_void_p]),
    "sublet_shape": (c_int, [c_void_p, POINTER(c_uint32), POINTER(c_uint32)]),
    "sublet_create_pool": (c_int, [c_void_p, c_uint32, c_char_p, POINTER(c_uint64)]),
    "sublet_destroy_pool": (c_int, [c_void_p, c_uint64]),
    "sublet_put": (c_int, [c_void_p, Key, c_char_p]),
    "sublet_get": (c_int, [c_void_p, Key, c_void_p]),
    "sublet_put_run": (c_int, [c_void_p, Key, c_uint32, c_char_p, POINTER(RunBits)]),
    "sublet_get_run": (c_int, [c_void_p, Key, c_uint32, c_void_p, POINTER(RunBits)]),
    "sublet_flush_page": (c_int, [c_void_p, Key]),
    "sublet_flush_object": (c_int, [c_void_p, c_uint64, c_uint64]),
    "sublet_batch_begin": (c_int, [c_void_p]),
    "sublet_batch_put": (c_int, [c_void_p, Key, POINTER(c_void_p)]),
    "sublet_batch_get": (c_int, [c_void_p, Key]),
    "sublet_batch_put_run": (c_int, [c_void_p, Key, c_uint32, POINTER(c_void_p)]),
    "sublet_batch_get_run": (c_int, [c_void_p, Key, c_uint32]),
    "sublet_batch_flush_page": (c_int, [c_void_p, Key]),
    "sublet_batch_flush_run": (c_int, [c_void_p, Key, c_uint32]),
    "sublet_batch_flush_object": (c_int, [c_void_p, c_uint64, c_uint64]),
    "sublet_batch_len": (c_int, [c_void_p]),
    "sublet_batch_run": (c_int, [c_void_p]),
    "sublet_batch_outcome": (c_int, [c_void_p, c_uint32]),
    "sublet_batch_outcome_of_run": (c_int, [c_void_p, c_uint32, POINTER(RunBits)]),
    "sublet_batch_page": (c_void_p, [c_void_p, c_uint32]),
    "sublet_batch_page_of_run": (c_void_p, [c_void_p, c_uint32, c_uint32]),
    "sublet_text": (c_size_t, [c_int, c_char_p, c_size_t]),
}


def load():
    """The library at $SUBLET_LIBRARY, else where the system keeps libraries."""
    name = os.environ.get("SUBLET_LIBRARY") or ctypes.util.find_library("sublet_client")
    if not name:
        raise OSError("libsublet_client.so is nowhere to be found: say where by SUBLET_LIBRARY")
    library = ctypes.CDLL(name)
    for function, (result, arguments) in FUNCTIONS.items():
        declared = getattr(library, function)
        declared.restype, declared.argtypes = result, arguments
    if library.sublet_version() != VERSION:
        raise OSError(f"{name} speaks version {library.sublet_version()} of the ring, not {VERSION}")
    return library
