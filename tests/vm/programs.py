"""Where things are kept, and our own C programs: those for guests are static, the others run on the host."""

import contextlib
import fcntl
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "vm"
SOURCES = HERE / "programs"
IN_GUESTS = ("agent", "patmem", "usemem", "fsyncer")
WITH_FUSE = ("lossyfs",)
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]


class Missing(Exception):
    """Something that these tests need is not on this machine and cannot be fetched; says what in a sentence."""


@contextlib.contextmanager
def alone():
    """Makes things in WORK while no other process does. Not to be taken twice."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built(name, folder=SOURCES):
    """The path of one of our programs, compiled if it is older than its source in `folder`."""
    program = WORK / "bin" / name
    sources = [folder / f"{name}.c", SOURCES / "pattern.h"]
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        program.parent.mkdir(parents=True, exist_ok=True)
        compile_one(folder / f"{name}.c", program)
    return program


def compile_one(source, program):
    name = source.stem
    more = ["-static", "-s"] if name in IN_GUESTS else fuse_flags() if name in WITH_FUSE else []
    fresh = program.with_suffix(".new")
    done = subprocess.run(["cc", *FLAGS, source, "-o", fresh, *more], capture_output=True, text=True)
    assert done.returncode == 0, f"{name}.c does not compile:\n{done.stderr}"
    fresh.rename(program)


def fuse_flags():
    """What the compiler needs for libfuse 3."""
    if not pathlib.Path("/dev/fuse").exists():
        raise Missing("/dev/fuse is not there: no file system that forgets can be mounted")
    try:
        told = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    except FileNotFoundError:
        raise Missing("pkg-config is not on this machine: apt-get install pkg-config") from None
    if told.returncode != 0:
        raise Missing("libfuse 3 is not on this machine: apt-get install libfuse3-dev fuse3")
    return told.stdout.split()
