"""Pages, and the numbers that name them."""

from .library import Key

PAGE_BYTES = 4096
RUN_PAGES_MAX = 64


def key_of(handle, object, index):
    """The key of a page. ctypes would cut off what does not fit, and name another one."""
    return Key(handle, object_of(object), _number("index", index, 32))


def object_of(object):
    """An object's number, if it is one."""
    return _number("object", object, 64)


def run_of(count):
    """How many pages a run has, if it may."""
    if not 1 <= count <= RUN_PAGES_MAX:
        raise ValueError(f"a run has 1 to {RUN_PAGES_MAX} pages, not {count}")
    return count


def page_of(page):
    """The bytes of a page, if they are one."""
    page = bytes(page)
    if len(page) != PAGE_BYTES:
        raise ValueError(f"a page has {PAGE_BYTES} bytes, not {len(page)}")
    return page


def joined(pages):
    """The bytes of a run of pages."""
    run_of(len(pages))
    return b"".join(page_of(page) for page in pages)


def _number(what, number, bits):
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{what} is a number from 0 to 2**{bits} - 1, not {number}")
    return number
