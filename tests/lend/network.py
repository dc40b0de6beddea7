"""Hosts in network namespaces of their own, on one switch, whose cables can be pulled."""

import contextlib
import ctypes
import itertools
import os
import pathlib
import shutil
import socket
import subprocess
import threading

from programs import Missing

NUMBERS = itertools.count(1)
CLONE_NEWNET = 0x40000000
NAMES_OF_NAMESPACES = pathlib.Path("/etc/netns")


class Network:
    """A switch with hosts on it. Their namespaces' names have this process' number in them."""

    def __init__(self):
        self.prefix = f"lend-{os.getpid()}-{next(NUMBERS)}"
        self.hosts = {}
        self.switch = f"{self.prefix}-switch"
        make_namespace(self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")

    def add(self, name):
        """A new host; the n-th has the addresses 10.77.0.n and fd77::n."""
        host = self.hosts[name] = Host(self, name, len(self.hosts) + 1)
        return host

    def close(self):
        """Removes all namespaces. What ran there has ended."""
        for host in self.hosts.values():
            host.close()
        remove_namespace(self.switch)


class Host:
    """A network namespace, with a cable to the switch."""

    def __init__(self, network, name, number):
        self.network, self.name, self.number = network, name, number
        self.namespace = f"{network.prefix}-{name}"
        self.port = f"to-{name}"
        self.address, self.address6 = f"10.77.0.{number}", f"fd77::{number}"
        make_namespace(self.namespace)
        switch = network.switch
        ip("-n", self.namespace, "link", "add", "eth0", "type", "veth", "peer", "name", self.port, "netns", switch)
        ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.namespace, "addr", "add", f"{self.address6}/64", "dev", "eth0", "nodad")
        ip("-n", self.namespace, "link", "set", "lo", "up")
        ip("-n", self.namespace, "link", "set", "eth0", "up")
        ip("-n", switch, "link", "set", self.port, "master", "bridge", "up")

    def cut(self):
        """Pulls its cable: it sees so itself."""
        ip("-n", self.network.switch, "link", "set", self.port, "down")

    def heal(self):
        """Puts its cable back."""
        ip("-n", self.network.switch, "link", "set", self.port, "up", "master", "bridge")

    def cut_silently(self):
        """The switch passes nothing of it and to it any more, and it cannot see so."""
        ip("-n", self.network.switch, "link", "set", self.port, "nomaster")

    def stop_sending_to(self, other):
        """What it sends to another host is lost, and what that sends still comes."""
        ip("-n", self.namespace, "route", "add", "blackhole", f"{other.address}/32")
        ip("-n", self.namespace, "route", "flush", "cache")

    def send_to(self, other):
        """Ends that."""
        ip("-n", self.namespace, "route", "del", "blackhole", f"{other.address}/32")

    def words(self):
        """Words before a program that is to run on it."""
        if (NAMES_OF_NAMESPACES / self.namespace).exists():
            return ["ip", "netns", "exec", self.namespace]
        # ip mounts another /sys for the sake of names, and the program would not see its cgroup there.
        return ["nsenter", f"--net=/run/netns/{self.namespace}"]

    def connect(self, address, port, seconds=10):
        """A connection from it. The socket stays in its namespace, whoever uses it."""
        made = []

        def make():
            enter(self.namespace)
            made.append(socket.socket())

        # A namespace is a thread's, so another thread enters it.
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        (connection,) = made
        connection.settimeout(seconds)
        connection.connect((address, port))
        return connection

    def say_names(self, names):
        """What its /etc/hosts says: names and addresses. Programs that start after the first call see each change."""
        folder = NAMES_OF_NAMESPACES / self.namespace
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "hosts", "w") as file:
            file.write("".join(f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **names}.items()))

    def close(self):
        remove_namespace(self.namespace)
        shutil.rmtree(NAMES_OF_NAMESPACES / self.namespace, ignore_errors=True)


def ip(*words):
    """Runs ip(8); Missing if it is not there, or may not make namespaces."""
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
    except FileNotFoundError:
        raise Missing("ip is not on this machine: apt-get install iproute2") from None
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def enter(namespace):
    """Has the thread that calls belong to a namespace."""
    with open(f"/run/netns/{namespace}") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.setns(file.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


def make_namespace(name):
    try:
        ip("netns", "add", name)
    except AssertionError as error:
        raise Missing(f"network namespaces cannot be made, which needs root: {error}") from None


def remove_left_behind():
    """Removes namespaces of runs that were killed."""
    for path in pathlib.Path("/run/netns").glob("lend-*-*"):
        if not pathlib.Path(f"/proc/{path.name.split('-')[1]}").exists():
            remove_namespace(path.name)
            shutil.rmtree(NAMES_OF_NAMESPACES / path.name, ignore_errors=True)


def remove_namespace(name):
    with contextlib.suppress(AssertionError):
        ip("netns", "del", name)
