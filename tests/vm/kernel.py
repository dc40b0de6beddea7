"""The guests' kernel, Debian's cloud kernel (downloaded and unpacked, never installed), and their initramfs."""

import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess

import programs
from programs import WORK, Missing

MODULES = ("virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod")
KERNEL = WORK / "kernel"

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /mnt /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
exec /bin/agent /dev/ttyS1
"""


def image():
    """The path of the kernel's image."""
    return next(iter(sorted(unpacked().glob("boot/vmlinuz-*"))))


def unpacked():
    """The folder of the unpacked kernel package, fetched at the first call."""
    if not (KERNEL / "complete").exists():
        if platform.machine() != "x86_64":
            raise Missing(f"guests are x86_64, and this machine is {platform.machine()}")
        shutil.rmtree(KERNEL, ignore_errors=True)
        KERNEL.mkdir(parents=True)
        subprocess.run(["dpkg", "-x", downloaded(), KERNEL], check=True)
        (KERNEL / "complete").touch()
    return KERNEL


def downloaded():
    """The kernel's package, from this machine's own mirror."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Missing("the guests' kernel comes from Debian's archive, and apt is not on this machine")
    package = newest_package() or refreshed_package()
    if not package or not download(package) and not (refreshed_package() and download(package := newest_package())):
        raise Missing("the guests' kernel cannot be fetched: `apt-get download linux-image-cloud-amd64` fails")
    return next(KERNEL.glob("*.deb"))


def newest_package():
    """What linux-image-cloud-amd64 depends on, None where apt has no such package."""
    shown = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True).stdout
    found = re.search(r"Depends: (linux-image-\S+)", shown)
    return found and found[1]


def refreshed_package():
    if os.getuid() == 0:
        subprocess.run(["apt-get", "update", "-q"], capture_output=True)
    return newest_package()


def download(package):
    words = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
    return subprocess.run(words, cwd=KERNEL, capture_output=True).returncode == 0


def initramfs():
    """The path of the guests' initramfs, made anew when a program or the kernel is newer."""
    parts = [programs.built(name) for name in programs.IN_GUESTS] + [image(), pathlib.Path(__file__)]
    made = WORK / "initramfs"
    if not made.exists() or made.stat().st_mtime < max(part.stat().st_mtime for part in parts):
        fresh = made.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(archive(contents()))
        fresh.rename(made)
    return made


def contents():
    """The name, the mode and the bytes of each file in it."""
    busybox = shutil.which("busybox")
    if not busybox or not is_static(pathlib.Path(busybox).read_bytes()):
        raise Missing("a static busybox is not on this machine: apt-get install busybox-static")
    files = [(folder, 0o40755, b"") for folder in ("bin", "modules", "dev")]
    files += [("init", 0o100755, INIT.encode()), ("bin/busybox", 0o100755, pathlib.Path(busybox).read_bytes())]
    files += [(f"bin/{name}", 0o100755, programs.built(name).read_bytes()) for name in programs.IN_GUESTS]
    order = modules_in_order()
    files += [(f"modules/{path.name}", 0o100644, path.read_bytes()) for path in order]
    return files + [("modules/order", 0o100644, "\n".join(path.stem for path in order).encode())]


def is_static(elf):
    """Whether a 64-bit program asks for no interpreter."""
    (at,), (size, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
    interpreter = 3
    return all(struct.unpack_from("<I", elf, at + n * size)[0] != interpreter for n in range(count))


def modules_in_order():
    """The modules that guests need, each behind those that it depends on. Those that are built in need no file."""
    paths = {path.stem.replace("-", "_"): path for path in unpacked().glob("lib/modules/*/kernel/**/*.ko")}
    order = []

    def add(name):
        path = paths.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for other in depends[1].decode().split(",") if depends and depends[1] else ():
            add(other)
        order.append(path)

    for name in MODULES:
        add(name)
    return order


def archive(files):
    """A cpio archive ("newc") as the kernel reads it."""
    parts = []
    for number, (name, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        parts += [head, bytes(-len(head) % 4), content, bytes(-len(content) % 4)]
    return b"".join(parts)
