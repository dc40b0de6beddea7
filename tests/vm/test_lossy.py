"""The drive that forgets does forget, and only what it may."""

import mmap
import os

import pytest

MIB = 1 << 20
BLOCK = 4096


def write(fd, block, letter, flags=0):
    """Writes a block past every page cache, as a disk does."""
    page = mmap.mmap(-1, BLOCK)
    page.write(letter * BLOCK)
    assert os.pwritev(fd, [page], block * BLOCK, flags) == BLOCK


def letters(lossy, block):
    with open(lossy.path, "rb") as file:
        return os.pread(file.fileno(), BLOCK, block * BLOCK)


@pytest.fixture
def drive(lossy):
    made = lossy(4 * MIB)
    fd = os.open(made.path, os.O_RDWR | os.O_DIRECT)
    yield made, fd
    os.close(fd)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_synced_stays_and_the_rest_may_go(drive, seed):
    lossy, fd = drive
    for block in range(64):
        write(fd, block, b"a")
    os.fdatasync(fd)
    for block in range(32, 96):
        write(fd, block, b"b")
    write(fd, 200, b"c", os.RWF_DSYNC)
    lossy.cut(seed)
    assert all(letters(lossy, block) == b"a" * BLOCK for block in range(32))
    assert letters(lossy, 200) == b"c" * BLOCK
    assert all(set(letters(lossy, block)) <= set(b"ab\0") for block in range(32, 96))


def test_cuts_differ_and_tear_blocks(lossy):
    kept = set()
    for seed in range(10):
        drive = lossy(MIB, f"drive{seed}")
        fd = os.open(drive.path, os.O_RDWR | os.O_DIRECT)
        for block in range(64):
            write(fd, block, b"x")
        os.close(fd)
        drive.cut(seed)
        kept.add(drive.durable.read_bytes().count(b"x" * 512))
    assert len(kept) > 3 and any(sectors % 8 for sectors in kept), kept


def test_handles_from_before_a_cut_are_dead(drive):
    lossy, fd = drive
    lossy.cut(1)
    with pytest.raises(OSError):
        os.fdatasync(fd)
    with pytest.raises(OSError):
        write(fd, 0, b"z")


def test_what_is_written_is_seen_before_it_lasts(drive):
    lossy, fd = drive
    write(fd, 7, b"s")
    assert letters(lossy, 7) == b"s" * BLOCK
    assert lossy.durable.read_bytes().count(b"s") == 0
    os.fdatasync(fd)
    assert lossy.durable.read_bytes().count(b"s") == BLOCK


def test_holes_are_holes(drive):
    lossy, fd = drive
    write(fd, 10, b"h")
    assert os.lseek(fd, 0, os.SEEK_DATA) == 10 * BLOCK
    assert os.lseek(fd, 10 * BLOCK, os.SEEK_HOLE) == 11 * BLOCK
    assert os.stat(lossy.path).st_blocks == BLOCK // 512


def test_faults_come_when_ordered(drive):
    lossy, fd = drive
    lossy.fail("write", 1, 1, "ENOSPC")
    write(fd, 0, b"1")
    with pytest.raises(OSError, match="No space left"):
        write(fd, 1, b"2")
    write(fd, 2, b"3")
