"""A cgroup whose members share a limit on memory: a host that runs short, inside one that does not."""

import contextlib
import os
import pathlib
import subprocess

from programs import Missing, built

# Where cgroups are, the file of the limit, of what is used, and of how often the limit was reached and by which word.
KINDS = (
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.failcnt", None),
    ("/sys/fs/cgroup", "memory.max", "memory.current", "memory.events", "max"),
)


class Limited:
    """Such a cgroup; processes join it before they begin."""

    def __init__(self, name, limit):
        for top, *files in KINDS:
            self.folder = pathlib.Path(top) / f"sublet-{name}-{os.getpid()}"
            self.limit_file, self.usage_file, self.reached_file, self.word = files
            try:
                self.folder.mkdir()
                (self.folder / self.limit_file).write_text(str(limit))
                return
            except OSError:
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
        raise Missing("no cgroup with a limit on memory can be made: needs root, and cgroups of memory")

    def join(self):
        """Has the process that calls, between fork and exec, belong to it."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def used(self):
        """Bytes that its members have, without files' pages, which the kernel drops when they are in the way."""
        stat = (line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        files = sum(int(bytes) for name, bytes in stat if name in ("active_file", "inactive_file"))
        return int((self.folder / self.usage_file).read_text()) - files

    def reached(self):
        """How often its limit was reached."""
        words = (self.folder / self.reached_file).read_text().split()
        return int(words[words.index(self.word) + 1] if self.word else words[0])

    def take(self, amount):
        """Has a program in it touch so many bytes, and keep them until it is killed."""
        words = [built("patmem"), str(amount >> 20), "1000000", "9"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=self.join)

    def close(self):
        """Removes it; its members have ended."""
        self.folder.rmdir()
