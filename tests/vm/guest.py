"""A virtual machine: boots, runs commands, is killed."""

import dataclasses
import itertools
import os
import pathlib
import queue
import socket
import subprocess
import threading
import time

import kernel

BOOT_SECONDS_MAX = 90
# Seconds that QEMU waits for a disk's server to come back before its guest sees an error.
RECONNECT_SECONDS = 60
ACCELERATOR = os.environ.get("VM_ACCELERATOR", "tcg")


@dataclasses.dataclass(frozen=True)
class Drive:
    """How a guest sees a disk: by `nvme`, `scsi` or `virtio` over NBD, or by `vhost` (vhost-user-blk). Neither NVMe nor
    SCSI rotates. QEMU's NVMe device (7.2) says that it honours FUA and does not: a journal's commit block waits for the
    next FLUSH. It also misses a doorbell now and then, whoever serves the disk, and then stands still. So it is for
    swap alone."""

    kind: str
    socket: pathlib.Path
    export: str = ""

    def words(self, name):
        """QEMU's options for it. A drive comes back after its server did."""
        if self.kind == "vhost":
            chardev = f"socket,id={name},path={self.socket},reconnect=1"
            return ["-chardev", chardev, "-device", f"vhost-user-blk-pci,chardev={name},num-queues=1"]
        blockdev = (
            f"driver=nbd,node-name={name},server.type=unix,server.path={self.socket},export={self.export},"
            f"reconnect-delay={RECONNECT_SECONDS},open-timeout=10,discard=unmap"
        )
        devices = {
            "nvme": [f"nvme,serial={name},drive={name}"],
            "scsi": ["virtio-scsi-pci", f"scsi-hd,rotation_rate=1,drive={name}"],
            "virtio": [f"virtio-blk-pci,drive={name}"],
        }[self.kind]
        return ["-blockdev", blockdev, *itertools.chain(*(("-device", device) for device in devices))]

    @property
    def device(self):
        """What a guest calls the first of its kind."""
        return {"nvme": "/dev/nvme0n1", "scsi": "/dev/sda"}.get(self.kind, "/dev/vda")


class CommandFailed(AssertionError):
    """A guest's command ended badly, or not in time."""


class Command:
    """A command that runs in a guest."""

    def __init__(self, guest, number, line):
        self.guest, self.number, self.line = guest, number, line
        self.output = ""
        self.status = None
        self.lines = queue.Queue()
        self.ended = threading.Event()
        self._open_line = ""

    def hear(self, piece):
        self.output += piece
        *whole, self._open_line = (self._open_line + piece).split("\n")
        for line in whole:
            self.lines.put(line)

    def end(self, status):
        self.status = status
        self.ended.set()

    def wait(self, seconds):
        """Its output, when it has ended well. Raises CommandFailed else, or after `seconds`."""
        if not self.ended.wait(seconds):
            raise CommandFailed(f"{self.guest.name}: not done in {seconds} s: {self.line}{self.tail()}")
        if self.status != 0:
            raise CommandFailed(f"{self.guest.name}: status {self.status}: {self.line}{self.tail()}")
        return self.output

    def wait_for(self, beginning, seconds):
        """The next line that begins so. Raises CommandFailed if the command ends or `seconds` pass without it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                line = self.lines.get(timeout=0.1)
            except queue.Empty:
                if self.ended.is_set() and self.lines.empty():
                    break
                continue
            if line.startswith(beginning):
                return line
        raise CommandFailed(f"{self.guest.name}: no line «{beginning}…» in {seconds} s: {self.line}{self.tail()}")

    def kill(self):
        """Ends it by force."""
        self.guest.send(f"k {self.number}\n")

    def tail(self):
        return f"\nit said: {self.output[-1500:]}\nthe console: {self.guest.console()[-2500:]}"


# What QEMU makes a guest's memory of: a memfd that it seals, as Cloud Hypervisor one that it does not, and a file.
MEMORY = {
    "sealed": "memory-backend-memfd,share=on",
    "unsealed": "memory-backend-memfd,share=on,seal=off",
    "file": "memory-backend-file,mem-path=/dev/shm,share=on",
}


class Guest:
    """One virtual machine. `drives` have names; its `memory` is one of MEMORY."""

    def __init__(self, folder, name, mib, drives, memory="sealed"):
        self.name, self.mib, self.drives, self.memory = name, mib, dict(drives), memory
        self.folder = pathlib.Path(folder)
        self.process = self._link = self._listener = None
        self._commands, self._numbers = {}, 0
        self._ready = threading.Event()

    def start(self):
        """Boots it, to the first command that it could run."""
        self.process = self._spawn()
        try:
            self._link = self._connected()
            self._listener = threading.Thread(target=self._listen, args=(self._link,), daemon=True)
            self._listener.start()
            if not self._ready.wait(BOOT_SECONDS_MAX):
                raise CommandFailed(f"{self.name} does not boot in {BOOT_SECONDS_MAX} s:\n{self.console()[-3000:]}")
        except BaseException:
            self.kill()
            raise
        return self

    def run(self, line, seconds=60):
        """The output of a command that has to end well within `seconds`."""
        return self.begin(line).wait(seconds)

    def device(self):
        """The path of its only drive, once that is there: Linux looks for SCSI disks while it boots on."""
        (drive,) = self.drives.values()
        self.run(f"until [ -b {drive.device} ]; do sleep 0.1; done", 30)
        return drive.device

    def begin(self, line):
        """A command that runs beside others."""
        assert "\n" not in line and len(line) < 4000
        self._numbers += 1
        command = self._commands[self._numbers] = Command(self, self._numbers, line)
        self.send(f"{self._numbers} {line}\n")
        return command

    def send(self, text):
        self._link.sendall(text.encode())

    def kill(self):
        """As if its power went. What its commands had said by then has been heard."""
        if self.process:
            self.process.kill()
            self.process.wait()
        if self._listener:
            self._listener.join(10)
        if self._link:
            self._link.close()

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def console(self):
        """What its kernel said, and QEMU."""
        texts = [self.folder / f"{self.name}.console", self.folder / f"{self.name}.qemu"]
        return "".join(path.read_text(errors="replace") for path in texts if path.exists())

    def _spawn(self):
        words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        words += ["-machine", f"q35,accel={ACCELERATOR},memory-backend=ram", "-m", f"{self.mib}M", "-smp", "1"]
        words += ["-cpu", "host" if ACCELERATOR == "kvm" else "max,la57=off"]
        words += ["-object", f"{MEMORY[self.memory]},id=ram,size={self.mib}M"]
        words += ["-kernel", kernel.image(), "-initrd", kernel.initramfs(), "-append", self._append()]
        words += ["-serial", f"file:{self.folder / self.name}.console"]
        words += ["-chardev", f"socket,id=link,path={self._link_path()},server=on,wait=off", "-serial", "chardev:link"]
        for name, drive in self.drives.items():
            words += drive.words(name)
        said = open(self.folder / f"{self.name}.qemu", "wb")
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def _append(self):
        return "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on no_timer_check rootfstype=ramfs"

    def _link_path(self):
        return self.folder / f"{self.name}.link"

    def _connected(self):
        end = time.monotonic() + 20
        while time.monotonic() < end and self.is_alive():
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(str(self._link_path()))
                return link
            except OSError:
                link.close()
                time.sleep(0.02)
        raise CommandFailed(f"QEMU of {self.name} does not start:\n{self.console()[-3000:]}")

    def _listen(self, link):
        """Follows what the agent in the guest says, until the machine ends."""
        stream = link.makefile("rb")
        try:
            for head in stream:
                self._hear(head.split(), stream)
        except (OSError, ValueError):
            pass
        for command in list(self._commands.values()):
            if not command.ended.is_set():
                command.end(-1)

    def _hear(self, head, stream):
        match head:
            case [b"ready"]:
                self._ready.set()
            case [b"o", number, count]:
                piece = stream.read(int(count)).decode(errors="replace")
                self._commands[int(number)].hear(piece)
            case [b"e", number, status]:
                self._commands.pop(int(number)).end(int(status))
