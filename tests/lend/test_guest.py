"""A guest's file system and swap on a host that borrows, while lenders die, stand still and are cut off."""

import time

from nodes import MIB, eventually, wait_until_up
from test_disk import Ledger, make_file_system, mount
from test_swap import SWAP, swap_on

DISK = 96 * MIB
FAR_HITS = 100


def test_a_guest_sees_no_wrong_byte(pair, boot, long):
    cluster = pair(lenders=2, borrower=dict(ceiling=32, slow="1ms"))
    borrower, (b, c) = cluster.borrower, cluster.lenders
    wait_until_up(borrower, "b", "c")
    disk = borrower.add("disk", "disk", DISK)
    make_file_system(disk.backing)
    swap = borrower.add("swap", "swap", SWAP)
    swapping = boot("swapping", 128, {"swap": swap.drive("scsi")})
    writing = boot("writing", 96, {"disk": disk.drive("virtio")})
    swap_on(swapping)
    mount(writing)
    memory = swapping.begin("patmem 168 1000 3")
    files = writing.begin("fsyncer run /mnt 11 10000")
    memory.wait_for("touched", 240)

    def far_hits():
        """How many pages came from lenders, while both guests work."""
        for work in (memory, files):
            assert not work.ended.is_set(), work.tail()
        return borrower.far_hits()

    for _ in range(10 if long else 1):
        for each in faults(b, c):
            before = far_hits()
            eventually("pages come from lenders", lambda: far_hits() >= before + FAR_HITS, 120)
            each()
            print(f"{each.__name__}: {far_hits()} pages came from lenders")
    # The pass that saw the faults.
    memory.wait_for("verified", 600)
    memory.kill()
    files.kill()
    ledger = Ledger()
    ledger.note(files.output)
    assert ledger.durable, "files were written"
    ledger.compare(writing.run("echo 3 > /proc/sys/vm/drop_caches; fsyncer verify /mnt", 300), "in the guest")
    for name in ("disk", "swap"):
        assert borrower.show(name)["faults"] == 0
    for guest in (swapping, writing):
        assert "error" not in guest.run("dmesg | grep -i -E 'ext4|I/O error|vda|sda.*error|jbd2' || true").lower()
    assert borrower.lost("forged") == 0


def stay(seconds):
    """Leaves things as they are."""
    time.sleep(seconds)


def faults(b, c):
    """What happens to the lenders, one after the other."""

    def killed_and_started():
        b.kill()
        stay(2)
        b.start()

    def stopped_and_continued():
        c.pause()
        stay(3)
        c.go_on()

    def cut_off_for_a_moment():
        b.host.cut()
        stay(3)
        b.host.heal()

    def both_killed():
        b.kill()
        c.kill()
        stay(2)
        b.start()
        c.start()

    return [killed_and_started, stopped_and_continued, cut_off_for_a_moment, both_killed]
