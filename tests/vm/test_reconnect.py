"""Whoever serves the disks is killed and started again while guests use them: nothing is lost, no guest hangs."""

import random
import time

import pytest

from test_disk import Ledger, make_file_system, mount
from test_swap import SWAP, swap_on

MIB = 1 << 20
TRANSPORTS = {"scsi": "nbd", "virtio": "nbd", "vhost": "vhost"}


def deaths(served, work, count):
    """Kills and starts `served` so many times while `work` runs, at moments of chance."""
    dice = random.Random(count)
    for _ in range(count):
        time.sleep(dice.uniform(0.5, 3))
        served.kill()
        assert not work.ended.is_set(), f"the work ended too soon:{work.tail()}"
        time.sleep(dice.uniform(0, 1.5))
        served.start()


@pytest.mark.parametrize("kind", ["scsi", "vhost"])
def test_swap_outlives_its_server(served, boot, long, kind):
    disk = served.add("swap", "swap", SWAP, transports=[TRANSPORTS[kind]])
    guest = boot("guest", 128, {"swap": disk.drive(kind)}, memory="unsealed")
    swap_on(guest)
    work = guest.begin("patmem 160 1000 3")
    work.wait_for("touched", 120)
    deaths(served, work, 20 if long else 2)
    # The pass that saw the deaths, and one from its first page to its last.
    for _ in range(2):
        work.wait_for("verified", 240)
    work.kill()


@pytest.mark.parametrize("kind", ["virtio", "vhost"])
def test_a_file_system_outlives_its_server(served, boot, long, kind):
    disk = served.add("disk", "disk", 96 * MIB, transports=[TRANSPORTS[kind]])
    make_file_system(disk.backing)
    guest = boot("guest", 128, {"disk": disk.drive(kind)}, memory="file")
    mount(guest)
    count = 20 if long else 2
    work = guest.begin(f"fsyncer run /mnt 11 {8 + 4 * count}")
    work.wait_for("began", 60)
    deaths(served, work, count)
    work.wait(120 + 10 * count)
    ledger = Ledger()
    ledger.note(work.output)
    ledger.compare(guest.run("echo 3 > /proc/sys/vm/drop_caches; fsyncer verify /mnt", 120), "in the guest")
    assert "error" not in guest.run("dmesg | grep -i -E 'ext4|I/O error|vda|jbd2' || true").lower()
