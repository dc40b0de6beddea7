"""A guest's file system on a disk of ours: whenever the power goes, what was fsync'ed is there.

The backing forgets at each cut what no fsync covered (lossy.py), as a drive does; a killed process alone would
leave all its writes in the kernel. A disk that is deaf to FLUSH (deaf.py) has to be found out by the same test."""

import itertools
import os
import random
import re
import subprocess
import time

import pytest

from deaf import Deaf
from guest import Drive
from programs import built

MIB = 1 << 20
DISK = 96 * MIB
MKFS, E2FSCK, DEBUGFS = "/sbin/mkfs.ext4", "/sbin/e2fsck", "/sbin/debugfs"
CUTS_UNTIL_FOUND_OUT = 12
SEED = int(os.environ.get("VM_SEED", "0")) or random.randrange(1, 1 << 31)


class Lost(AssertionError):
    """Something that was durable is not there, or the file system is not sound."""


class Ledger:
    """What a guest's fsyncer said is durable: names and versions."""

    def __init__(self):
        self.durable = {}

    def note(self, output):
        for name, version in re.findall(r"^d (\S+) (\d+)$", output, re.M):
            self.durable[name] = int(version)

    def compare(self, verified, where):
        """Raises Lost unless what `fsyncer verify` said holds at least what is durable."""
        wrong = re.findall(r"^WRONG.*", verified, re.M)
        if wrong:
            raise Lost(f"{where}: {wrong[:5]}")
        found = {name: int(version) for name, version in re.findall(r"^(\S+) (\d+)$", verified, re.M)}
        for name, version in self.durable.items():
            if found.get(name, 0) < version:
                raise Lost(f"{where}: {name} had version {version} on disk, and now {found.get(name, 'none')}")


def make_file_system(path):
    subprocess.run([MKFS, "-q", "-F", path], check=True, capture_output=True)


def mount(guest):
    guest.run(f"mount -t ext4 -o errors=panic {guest.device()} /mnt", 60)
    return guest


def check(image, folder, ledger):
    """Judges an image on the host: the journal replays, e2fsck finds nothing, what was durable is there."""
    copy = folder / "judged.img"
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)
    replayed = subprocess.run([E2FSCK, "-p", "-E", "journal_only", copy], capture_output=True, text=True)
    judged = subprocess.run([E2FSCK, "-f", "-n", copy], capture_output=True, text=True)
    if replayed.returncode > 1 or judged.returncode != 0:
        raise Lost(f"e2fsck: {replayed.stdout}{replayed.stderr}{judged.stdout[-2000:]}")
    files = folder / "judged"
    subprocess.run(["rm", "-rf", files], check=True)
    files.mkdir()
    subprocess.run([DEBUGFS, "-R", f"rdump / {files}", copy], check=True, capture_output=True)
    ledger.compare(verify_here(files), "on the host")
    copy.unlink()


def verify_here(files):
    return subprocess.run([built("fsyncer"), "verify", files], capture_output=True, text=True).stdout


class Powered:
    """A guest on a disk that loses its power again and again. `deaf`: the disk never hears of a FLUSH."""

    def __init__(self, served, backing, boot, deaf=False):
        self.served, self.backing, self.boot, self.deaf = served, backing, boot, deaf
        self.dice = random.Random(SEED)
        self.ledger = Ledger()
        self.cuts = 0
        make_file_system(backing.path)
        self.disk = served.add("disk", "disk", DISK, backing.path, ("nbd",) if deaf else ("nbd", "vhost"))
        print(f"VM_SEED={SEED} repeats these cuts")

    def round(self, kind, death):
        """Boots, verifies, writes for a while; then comes `death`. Raises Lost."""
        self.cuts += 1
        proxy = Deaf(self.served.folder / f"deaf{self.cuts}", self.disk.nbd) if self.deaf else None
        drive = Drive(kind, proxy.path, self.disk.name) if proxy else self.disk.drive(kind)
        guest = self.boot(f"guest{self.cuts}", 128, {"disk": drive})
        try:
            self._work(guest, death)
        finally:
            guest.kill()
            if proxy:
                proxy.close()

    def _work(self, guest, death):
        mount(guest)
        self.ledger.compare(guest.run("fsyncer verify /mnt; true", 120), "in the guest")
        work = guest.begin(f"fsyncer run /mnt {self.dice.randrange(1 << 30)} 600")
        work.wait_for("began", 60)
        time.sleep(self.dice.uniform(0.5, 5))
        death(self, guest)
        if "WRONG" in work.output:
            raise Lost(f"in the guest: {work.output[-1000:]}")
        self.ledger.note(work.output)
        check(self.backing.path, self.served.folder, self.ledger)

    def guest_dies(self, guest):
        """The guest's power goes, and nothing else's."""
        guest.kill()
        time.sleep(0.3)

    def host_dies(self, guest):
        """The guest and whoever serves it die in either order, and the drive forgets."""
        deaths = [guest.kill, self.served.lose_power]
        self.dice.shuffle(deaths)
        deaths[0]()
        time.sleep(self.dice.choice([0, 0, 0.05, 0.5]))
        deaths[1]()
        self.backing.cut(self.dice.randrange(1 << 30))
        self.served.start()


def test_what_is_fsynced_survives_every_cut(lossy, served, boot, long):
    powered = Powered(served, lossy(DISK), boot)
    kinds = itertools.cycle(["virtio", "vhost", "scsi"])
    deaths = itertools.cycle([Powered.host_dies, Powered.host_dies, Powered.guest_dies, Powered.host_dies])
    for _ in range(50 if long else 3):
        powered.round(next(kinds), next(deaths))
    print(f"{powered.cuts} cuts, {len(powered.ledger.durable)} durable things, drive: {powered.backing.counted()}")


def test_a_disk_that_is_deaf_to_flush_is_found_out(lossy, served, boot):
    powered = Powered(served, lossy(DISK), boot, deaf=True)
    with pytest.raises(Lost) as lost:
        for _ in range(CUTS_UNTIL_FOUND_OUT):
            powered.round("virtio", Powered.host_dies)
    print(f"found out at cut {powered.cuts}: {str(lost.value)[:200]}")


def test_files_that_left_the_guests_memory_come_back(served, boot):
    disk = served.add("disk", "disk", DISK)
    make_file_system(disk.backing)
    guest = mount(boot("guest", 128, {"disk": disk.drive("virtio")}))
    guest.run("fsyncer run /mnt 5 8", 60)
    before = guest.run("sync; echo 3 > /proc/sys/vm/drop_caches; find /mnt -type f | sort | xargs sha256sum")
    for _ in range(3):
        assert before == guest.run("echo 3 > /proc/sys/vm/drop_caches; find /mnt -type f | sort | xargs sha256sum")
    guest.run("umount /mnt")
    guest.kill()
    served.stop()
    judged = subprocess.run([E2FSCK, "-f", "-n", disk.backing], capture_output=True, text=True)
    assert judged.returncode == 0, judged.stdout
