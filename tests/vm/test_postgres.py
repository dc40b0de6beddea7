"""PostgreSQL on a file system on a disk: its own books have to balance, also after the daemon was killed under it."""

import contextlib
import glob
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from served import eventually

MIB = 1 << 20
# A unit of pgbench's scale takes 16 MiB; as much again is for the log and what updates leave behind.
SIZE, SCALE = 512 * MIB, 2
LONG_SIZE, LONG_SCALE = 2048 * MIB, 50
USER = "postgres"

BALANCE = """select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
    and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
    and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)"""


def programs():
    """The folder of PostgreSQL's programs. It is no part of `./test`: Debian's package starts a database by itself."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))
    needed = ("nbdfuse", "losetup", "mkfs.ext4", "e2fsck")
    missing = [name for name in needed if not shutil.which(name)]
    if not found or missing or os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        pytest.skip(f"needs root, loop devices, postgresql and {' '.join(needed)}")
    return pathlib.Path(found[-1]).parent


def says(*words, seconds=180):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Cluster:
    """A database in a folder, reached by a socket there."""

    def __init__(self, programs, folder):
        self.programs, self.data = programs, folder / "data"
        self.folder = folder

    def run(self, program, *words):
        return says("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", self.programs / program, *words)

    def make(self):
        shutil.chown(self.folder, USER, USER)
        self.run("initdb", "-D", self.data, "--no-instructions", "-A", "trust")

    def start(self):
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c shared_buffers=16MB"
        self.run("pg_ctl", "-D", self.data, "-w", "-t", 120, "-l", self.folder / "log", "-o", options, "start")

    def stop(self, how):
        self.run("pg_ctl", "-D", self.data, "-w", "-m", how, "stop")

    @contextlib.contextmanager
    def running(self, end):
        self.start()
        try:
            yield self
        except BaseException:
            self.stop("immediate")
            raise
        self.stop(end)

    def bench(self, *words):
        # -n: pgbench would empty the history before each run, and the books with it.
        return self.run("pgbench", "-n", "-h", self.folder, *words, "postgres")

    def balances(self):
        return self.run("psql", "-h", self.folder, "-tAc", BALANCE, "postgres").strip() == "t"


@contextlib.contextmanager
def mounted(disk, folder):
    """The disk's file system: nbdfuse shows the disk as a file, which a loop device mounts."""
    shown, place = folder / "shown", folder / "mnt"
    shown.mkdir(exist_ok=True), place.mkdir(exist_ok=True)
    fuse = subprocess.Popen(["nbdfuse", shown, disk.uri], stdin=subprocess.DEVNULL)
    loop = None
    try:
        eventually("nbdfuse shows the disk", (shown / "nbd").exists, 30)
        loop = says("losetup", "--find", "--show", shown / "nbd").strip()
        if subprocess.run(["blkid", loop], capture_output=True).returncode != 0:
            says("mkfs.ext4", "-q", loop)
        says("e2fsck", "-p", "-f", loop)
        says("mount", loop, place)
        try:
            yield place
        finally:
            # A process of a database that was stopped at once may be there a moment longer.
            eventually("the file system is let go of", lambda: subprocess.run(["umount", place]).returncode == 0, 60)
        says("e2fsck", "-n", "-f", loop)
    finally:
        if loop:
            says("losetup", "--detach", loop)
        time.sleep(0.2)
        subprocess.run(["fusermount3", "-u", shown], capture_output=True)
        fuse.wait(60)


def test_the_books_balance(served, folder, long):
    where = programs()
    os.chmod(folder, 0o755)
    folder = pathlib.Path(folder)
    disk = served.add("db", "disk", LONG_SIZE if long else SIZE)
    with mounted(disk, folder) as place:
        cluster = Cluster(where, place)
        cluster.make()
        # The end is as after a crash: the database recovers from what it had synced.
        with cluster.running(end="immediate"):
            cluster.bench("-i", "-q", "-s", LONG_SCALE if long else SCALE)
            cluster.bench("-c", 4, "-j", 2, "-T", 120 if long else 5)
            assert cluster.balances()
            cluster.bench("-c", 4, "-T", 1)
    served.kill()
    served.start()
    with mounted(disk, folder) as place:
        cluster = Cluster(where, place)
        with cluster.running(end="fast"):
            assert cluster.balances()
