"""What others' tools say of a disk over a Unix socket."""

import json
import os
import subprocess
import threading
import time

import pytest

MIB = 1 << 20
SIZE = 64 * MIB


def says(*words, seconds=120):
    """What a program says; it has to succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def qemu_io(disk, *commands):
    """qemu-io's commands on a disk; what they say. It tells of failures only in words."""
    words = ["qemu-io", "-f", "raw", disk.uri]
    for command in commands:
        words += ["-c", command]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def is_right(done):
    return done.returncode == 0 and "failed" not in done.stdout + done.stderr and "error" not in done.stderr


def write_pattern(path, size, seed=1):
    """A file of bytes of chance with a hole in its middle third."""
    third = size // 3 // MIB * MIB
    block = os.urandom(MIB)
    with open(path, "wb") as file:
        for at in [*range(0, third, MIB), *range(2 * third, size, MIB)]:
            file.seek(at)
            file.write(bytes([seed, at // MIB % 256]) + block[2:])
        file.truncate(size)
    return path


@pytest.fixture(params=["disk", "swap"])
def disk(request, served):
    return served.add("judged", request.param, SIZE)


def test_nbdinfo(served, disk):
    told = json.loads(says("nbdinfo", "--json", disk.uri))
    [export] = told["exports"]
    assert told["protocol"] == "newstyle-fixed"
    assert export["export-size"] == SIZE
    assert not export["is_read_only"]
    for can in ("can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"):
        assert export[can], can


def test_nbdinfo_map(served, disk):
    done = qemu_io(disk, f"write -P 7 {8 * MIB} {4 * MIB}", "flush")
    assert is_right(done), done
    extents = json.loads(says("nbdinfo", "--map", "--json", disk.uri))
    at = 0
    for extent in extents:
        assert extent["offset"] == at, "extents leave no gap"
        at += extent["length"]
    assert at == SIZE
    written = [e for e in extents if e["offset"] < 12 * MIB and e["offset"] + e["length"] > 8 * MIB]
    assert all(extent["type"] == 0 for extent in written), "what was written is no hole"


def test_nbdcopy_there_and_back(served, disk, folder):
    there, back = write_pattern(f"{folder}/there", SIZE), f"{folder}/back"
    says("nbdcopy", there, disk.uri)
    says("nbdcopy", disk.uri, back)
    says("cmp", there, back)
    says("nbdcopy", "--connections=4", "--requests=32", disk.uri, back)
    says("cmp", there, back)


def test_qemu_img_compares_equal(served, disk, folder):
    there = write_pattern(f"{folder}/there", SIZE, 3)
    says("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", there, disk.uri)
    assert "identical" in says("qemu-img", "compare", "-f", "raw", "-F", "raw", there, disk.uri)


def test_qemu_io_patterns(served, disk):
    at = 3 * MIB + 512
    steps = [
        f"write -P 0x11 {at} 1M",
        f"read -P 0x11 {at} 1M",
        f"write -f -P 0x22 {at + 4096} 7k",
        f"read -P 0x11 {at} 4096",
        f"read -P 0x22 {at + 4096} 7k",
        f"read -P 0x11 {at + 11264} 4k",
        f"write -z {at + 512} 512",
        f"read -P 0 {at + 512} 512",
        f"write -z -u {4 * MIB} 4M",
        f"read -P 0 {4 * MIB} 4M",
        f"write -P 0x33 {SIZE - 512} 512",
        f"read -P 0x33 {SIZE - 512} 512",
        "flush",
        f"discard {8 * MIB} 8M",
        f"write -P 0x44 {8 * MIB + 4096} 4k",
        f"read -P 0x44 {8 * MIB + 4096} 4k",
        f"aio_write -P 0x55 {16 * MIB} 2M",
        "aio_flush",
        f"read -P 0x55 {16 * MIB} 2M",
    ]
    done = qemu_io(disk, *steps)
    assert is_right(done), done.stdout + done.stderr


def test_fio_verifies(served, disk, long):
    says(
        *["fio", "--name=verify", "--ioengine=nbd", f"--uri={disk.uri}", "--rw=randrw", "--bssplit=512/20:4k/60:64k/20"],
        *["--iodepth=16", f"--size={SIZE}", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--verify_backlog=256", "--fsync=64"],
        *[f"--loops={10 if long else 1}", "--norandommap=0", "--randrepeat=0"],
        seconds=900,
    )


# ---- backings that fail


@pytest.fixture
def on_lossy(lossy, served):
    """A disk on a backing that can be made to fail."""
    backing = lossy(SIZE)
    return backing, served.add("faulty", "disk", SIZE, backing.path)


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_write_that_fails_is_told_and_harms_nothing_else(on_lossy, error):
    backing, disk = on_lossy
    assert is_right(qemu_io(disk, "write -P 1 0 1M", "flush"))
    backing.fail("write", 0, 1000, error)
    # A disk may tell of it at the write or, at the latest, at the flush.
    assert not is_right(qemu_io(disk, "write -P 2 1M 64k", "flush"))
    backing.clear()
    done = qemu_io(disk, "read -P 1 0 1M", "write -P 3 2M 64k", "flush", "read -P 3 2M 64k")
    assert is_right(done), done.stdout + done.stderr


def test_a_flush_that_fails_is_told(on_lossy):
    backing, disk = on_lossy
    backing.fail("sync", 0, 1000, "EIO")
    assert not is_right(qemu_io(disk, "write -P 2 1M 64k", "flush"))
    backing.clear()
    assert is_right(qemu_io(disk, "write -P 3 1M 64k", "flush", "read -P 3 1M 64k"))


def test_a_read_that_fails_is_told(on_lossy):
    backing, disk = on_lossy
    backing.fail("read", 0, 1000, "EIO")
    assert not is_right(qemu_io(disk, "read 32M 64k"))
    backing.clear()
    assert is_right(qemu_io(disk, "read -P 0 32M 64k"))


def test_a_stalled_write_stalls_nobody_else(on_lossy, served):
    backing, disk = on_lossy
    other = served.add("well", "disk", SIZE)
    assert is_right(qemu_io(disk, "write -P 1 0 1M", "flush"))
    backing.stall("write", 0, 1, 4)
    began = time.monotonic()
    stalled = threading.Thread(target=lambda: took.append((qemu_io(disk, "write -f -P 2 8M 4k"), time.monotonic() - began)))
    took = []
    stalled.start()
    time.sleep(0.5)
    assert is_right(qemu_io(other, "write -f -P 5 0 1M", "flush", "read -P 5 0 1M"))
    assert time.monotonic() - began < 3, "another disk waited for the stalled one"
    stalled.join()
    [(done, seconds)] = took
    assert is_right(done) and seconds >= 3.9
    assert is_right(qemu_io(disk, "read -P 2 8M 4k"))


def test_a_swap_disk_hides_a_failing_backing(lossy, served):
    """Pages that the backing does not take stay in memory: the guest never hears of it."""
    if not served.has_arena:
        pytest.skip("a stand-in has no memory to keep pages in")
    backing = lossy(SIZE)
    disk = served.add("faulty-swap", "swap", SIZE, backing.path)
    backing.fail("write", 0, 1 << 30, "EIO")
    done = qemu_io(disk, "write -P 9 0 8M", "flush", "read -P 9 0 8M")
    assert is_right(done), done.stdout + done.stderr
    backing.clear()
