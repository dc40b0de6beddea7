"""A backing that forgets: a file on lossyfs, see programs/lossyfs.c."""

import pathlib
import subprocess

import programs
from served import eventually


class Lossy:
    """`path` is a file of `size` bytes; what no fsync covered is lost or reordered at a `cut`."""

    def __init__(self, folder, size, name="lossy"):
        self.durable = pathlib.Path(folder) / f"{name}.img"
        self.folder = pathlib.Path(folder) / name
        with open(self.durable, "ab") as file:
            file.truncate(size)
        self.folder.mkdir()
        self.process = subprocess.Popen([programs.built("lossyfs"), self.durable, self.folder])
        eventually("lossyfs is mounted", self.path.exists, 10)

    @property
    def path(self):
        """The file as it is seen."""
        return self.folder / "disk"

    def cut(self, seed):
        """The power goes: what opened the file before has lost it."""
        self._say(f"cut {seed}")

    def fail(self, kind, after, count, error):
        """Of requests of `kind` (read, write, sync) `after` go well, the next `count` get `error` (EIO, ENOSPC)."""
        self._say(f"fail {kind} {after} {count} {error}")

    def stall(self, kind, after, count, seconds):
        """The same, but they take `seconds` longer."""
        self._say(f"stall {kind} {after} {count} {int(seconds * 1000)}")

    def clear(self):
        """No more of both."""
        self._say("clear")

    def counted(self):
        """What it counted: pending, writes, syncs, cuts, kept, lost…"""
        lines = (self.folder / "control").read_text().splitlines()
        return {name: int(number) for name, number in map(str.split, lines)}

    def close(self):
        self.process.terminate()
        self.process.wait(20)

    def _say(self, words):
        with open(self.folder / "control", "w") as file:
            file.write(words)
