"""Pages in the memory of a Sublet daemon on the same host."""

from .ring import PAGE_BYTES, Batch, Pool, Request, Ring, RingError

__all__ = ["PAGE_BYTES", "Batch", "Pool", "Request", "Ring", "RingError"]
