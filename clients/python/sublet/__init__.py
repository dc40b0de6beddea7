"""Pages in the memory of a Sublet daemon on the same host."""

from .answers import Put, RingError, Run, Shape
from .batch import Batch, Request
from .pages import PAGE_BYTES, RUN_PAGES_MAX
from .ring import Pool, Ring

__all__ = [
    "PAGE_BYTES",
    "RUN_PAGES_MAX",
    "Batch",
    "Pool",
    "Put",
    "Request",
    "Ring",
    "RingError",
    "Run",
    "Shape",
]
