"""A guest's swap lies in the host's idle memory, and what the guest frees comes back to it."""

import pytest

from served import eventually

MIB = 1 << 20
SWAP = 320 * MIB


def swap_on(guest):
    """Has a guest swap on its only drive. A virtio disk says that it rotates, and Linux sends it no discards then."""
    device = guest.device()
    if device == "/dev/vda":
        guest.run("echo 0 > /sys/block/vda/queue/rotational")
    guest.run(f"mkswap {device} && swapon -d {device}")
    guest.run("echo 0 > /proc/sys/vm/page-cluster; echo 100 > /proc/sys/vm/swappiness")


@pytest.mark.parametrize("kind", ["nvme", "scsi", "vhost"])
def test_every_page_comes_back_and_what_is_freed_returns(served, boot, long, kind):
    transport = "vhost" if kind == "vhost" else "nbd"
    disk = served.add("swap", "swap", SWAP, transports=[transport])
    guest = boot("guest", 128, {"swap": disk.drive(kind)})
    swap_on(guest)
    empty = served.used_bytes("swap")

    work = guest.begin(f"patmem 192 {20 if long else 1} 7")
    work.wait_for("touched", 120)
    assert served.used_bytes("swap") - empty > 64 * MIB, "the guest swaps, and the host's pool does not fill"
    work.wait_for("verified", 120)
    filled = served.used_bytes("swap") - empty
    work.wait(1800 if long else 30)

    swapped = int(guest.run("awk '$1 == \"pswpout\" {print $2}' /proc/vmstat")) * 4096
    assert swapped > 128 * MIB
    # Linux discards a cluster of 2 MiB once all of it is free: a few never are.
    returned = lambda: empty + filled - served.used_bytes("swap")
    eventually("nine tenths of what the guest freed return", lambda: returned() > filled * 0.9, 30)
    print(f"{kind}: {swapped >> 20} MiB swapped out, {filled >> 20} MiB in the pool, {returned() >> 20} returned")
