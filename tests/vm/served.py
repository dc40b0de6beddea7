"""Who serves the guests' disks: `sublet serve`, or stand-ins (nbdkit, qemu-storage-daemon) that show what the tests
themselves are worth. NODE_FACE=peer chooses the stand-ins; else NODE_PROGRAM is the `sublet` binary."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time

from guest import Drive

FACE = os.environ.get("NODE_FACE", "sublet")
PROGRAM = os.environ.get("NODE_PROGRAM")
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 60
PAGE = 4096


def eventually(what, condition, seconds):
    """Waits until `condition()` is true; fails, naming `what`, after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk that is served: by NBD at `nbd`, by vhost-user-blk at `vhost` (where asked for)."""

    name: str
    kind: str
    bytes: int
    backing: pathlib.Path | None
    nbd: pathlib.Path
    vhost: pathlib.Path
    transports: tuple

    @property
    def uri(self):
        return f"nbd+unix:///{self.name}?socket={self.nbd}"

    def drive(self, kind):
        """It, as a guest sees it: `nvme`, `scsi` or `virtio` over NBD, or `vhost`."""
        return Drive("vhost", self.vhost) if kind == "vhost" else Drive(kind, self.nbd, self.name)


class Served:
    """Disks that somebody serves. `kill` is -9; after `start` they are there again, with what was acknowledged.
    `lose_power` ends also what outlives a kill, as when the host dies."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.disks = {}

    def add(self, name, kind, size, backing=None, transports=("nbd",)):
        """Serves a new disk: `kind` is disk or swap, `size` in bytes. A disk without a backing gets an empty one."""
        if backing is None and kind == "disk":
            backing = self.folder / f"{name}.img"
            with open(backing, "wb") as file:
                file.truncate(size)
        nbd, vhost = self.folder / f"{name}.nbd", self.folder / f"{name}.vhost"
        disk = self.disks[name] = Disk(name, kind, size, backing, nbd, vhost, tuple(transports))
        self._add(disk)
        return disk


class StandIn(Served):
    """A process a disk and transport: nbdkit's file plugin, and qemu-storage-daemon, on a file."""

    has_policies = has_arena = False

    def __init__(self, folder):
        super().__init__(folder)
        self.running = {}

    def start(self):
        for disk in self.disks.values():
            self._serve(disk)

    def kill(self):
        self._end(signal.SIGKILL)

    lose_power = kill

    def stop(self):
        self._end(signal.SIGTERM)

    def used_bytes(self, name):
        """What the disk's file takes."""
        return self._file(self.disks[name]).stat().st_blocks * 512

    def _add(self, disk):
        if disk.backing is None:
            with open(self._file(disk), "wb") as file:
                file.truncate(disk.bytes)
        self._serve(disk)

    def _file(self, disk):
        return disk.backing or self.folder / f"{disk.name}.swap"

    def _serve(self, disk):
        for transport in disk.transports:
            path = {"nbd": disk.nbd, "vhost": disk.vhost}[transport]
            path.unlink(missing_ok=True)
            words = self._nbdkit(disk) if transport == "nbd" else self._storage_daemon(disk)
            with open(self.folder / f"{disk.name}.{transport}.log", "ab") as log:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.running[disk.name, transport] = process
            eventually(f"{words[0]} listens at {path}", path.exists, START_SECONDS_MAX)

    def _nbdkit(self, disk):
        return ["nbdkit", "-f", "-U", disk.nbd, "--threads=4", "file", self._file(disk)]

    def _storage_daemon(self, disk):
        file = f"driver=file,node-name=file,filename={self._file(disk)},discard=unmap,cache.direct=on"
        export = f"type=vhost-user-blk,id=export,node-name=file,writable=on,addr.type=unix,addr.path={disk.vhost}"
        # It tells guests that there is nothing to flush (wce = 0), so it had better be true.
        export += ",writethrough=on" if disk.kind == "disk" else ""
        return ["qemu-storage-daemon", "--blockdev", file, "--export", export]

    def _end(self, how):
        for process in self.running.values():
            process.send_signal(how)
        for process in self.running.values():
            process.wait(STOP_SECONDS_MAX)
        self.running.clear()


class Sublet(Served):
    """One `sublet serve` with all the disks. `tables` are added to its config, `before` are words that run it elsewhere,
    and `env` is added to its environment."""

    has_policies = has_arena = True
    # Options that each new disk gets.
    disk_options = ()

    def __init__(self, folder, ceiling_mib, tables="", before=(), env=None):
        super().__init__(folder)
        self.before, self.env = list(before), {**os.environ, **(env or {})}
        self.admin = self.folder / "admin.sock"
        self.config = self.folder / "sublet.toml"
        self.config.write_text(
            f'[daemon]\nstate = "{self.folder}/state"\n'
            f'[arena]\nceiling = "{ceiling_mib}MiB"\n'
            f'[admin]\nsocket = "{self.admin}"\n'
            f'[disk]\nallow = ["{self.folder}"]\n'
            f'[tenants.default]\nlisten = ["unix:{self.folder}/memcached.sock"]\n' + tables
        )
        self.process = None
        self.start()

    def start(self, join=None):
        """Starts it; `join` is called in the new process, which may join a cgroup."""
        with open(self.folder / "sublet.log", "ab") as log:
            words = [*self.before, PROGRAM, "serve", "--config", self.config]
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=join, env=self.env
            )
        eventually("the daemon answers", self._answers, START_SECONDS_MAX)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def lose_power(self):
        self.kill()
        for pid in self._keepers():
            os.kill(pid, signal.SIGKILL)

    def _keepers(self):
        """The processes that keep this daemon's dirty pages while it is away."""
        wanted = [b"keep", os.fsencode(self.folder / "admin.stage")]
        for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = line.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:3] == wanted:
                yield int(line.parent.name)

    def stop(self):
        self.process.terminate()
        self.process.wait(STOP_SECONDS_MAX)

    def used_bytes(self, name):
        """What it holds of the disk in memory."""
        return self.show(name)["pages"] * PAGE

    def show(self, name):
        """What `sublet disk show` says."""
        return json.loads(self.call("disk", "show", name, "--json"))

    def status(self):
        return json.loads(self.call("status", "--json"))

    def tenant(self, name):
        """What `sublet status` says of a tenant."""
        return next(tenant for tenant in self.status()["tenants"] if tenant["name"] == name)

    def release(self, amount):
        """Asks for bytes of the arena; what the daemon says it gave, which may be less."""
        return json.loads(self._run("release", str(amount), "--hold", "3s", "--json").stdout)

    def call(self, *words):
        """What a command of the daemon's says; it has to succeed."""
        done = self._run(*words)
        assert done.returncode == 0, f"sublet {' '.join(map(str, words))}: {done.stdout}{done.stderr}"
        return done.stdout

    def _run(self, *words):
        env = {**os.environ, "SUBLET_ADMIN": str(self.admin)}
        return subprocess.run([PROGRAM, *words], env=env, capture_output=True, text=True, timeout=60)

    def _add(self, disk):
        words = ["disk", "add", disk.name, "--tenant", disk.name, "--kind", disk.kind]
        words += ["--backing", disk.backing] if disk.backing else []
        words += ["--size", str(disk.bytes)] if disk.kind == "swap" else []
        words += self.disk_options
        for transport in disk.transports:
            words += ["--listen", {"nbd": f"unix:{disk.nbd}", "vhost": f"vhost-user:{disk.vhost}"}[transport]]
        self.call(*words)

    def _answers(self):
        assert self.process.poll() is None, f"the daemon ended:\n{(self.folder / 'sublet.log').read_text()[-3000:]}"
        return self._run("status", "--json").returncode == 0


def served(folder, ceiling_mib=256):
    """Somebody who serves disks, as NODE_FACE says; the arena holds at most `ceiling_mib`."""
    return StandIn(folder) if FACE == "peer" else Sublet(folder, ceiling_mib)
