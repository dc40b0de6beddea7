"""Daemons that lend to each other: certificates, configs, and what happens to daemons."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time

from served import PROGRAM, Sublet, eventually

MIB = 1 << 20
BLOCK = 2 * MIB
PORT = 7171
# Longer than a control connection may be silent, and than a lease outlives it, on a machine that others use.
NOTICED_SECONDS, FORGOTTEN_SECONDS = 10, 40
# A lease outlives its connection so long: docs and tests agree on it.
KEPT_SECONDS = 10


class Authority:
    """An authority of a cluster, made by the daemon's own commands."""

    def __init__(self, folder, cluster="default"):
        self.folder, self.cluster = pathlib.Path(folder), cluster
        self.folder.mkdir()
        self._sublet("lend", "ca", "init", "--cluster", cluster)

    def issue(self, node):
        """A node's certificate and key."""
        self._sublet("lend", "ca", "issue", node)
        return self.paths(node)

    def paths(self, node):
        return self.folder / f"{node}.crt", self.folder / f"{node}.key"

    def ended(self, node):
        """A certificate of a node that is valid no more, and the node's key."""
        return self._signed(node, self.cluster, "ended", days=-1)

    def of_cluster(self, node, cluster):
        """A certificate that says that the node is of another cluster, and the node's key."""
        return self._signed(node, cluster, cluster, days=1)

    def _signed(self, node, cluster, label, days):
        """Another certificate for a node's key, as the daemon's own command does not make it: NODE-LABEL.crt."""
        key = self.paths(node)[1]
        request, names, made = (self.folder / f"{node}-{label}.{kind}" for kind in ("csr", "names", "crt"))
        names.write_text(
            f"basicConstraints=critical,CA:FALSE\nsubjectAltName=URI:sublet://{cluster}/{node}\n"
            "keyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        openssl("req", "-new", "-key", key, "-subj", f"/O=Sublet node/CN={node}", "-out", request)
        authority = ["-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key", "-set_serial", "77"]
        openssl("x509", "-req", "-in", request, *authority, "-days", days, "-extfile", names, "-out", made)
        return made, key

    def fingerprint(self, node):
        told = openssl("x509", "-in", self.paths(node)[0], "-noout", "-fingerprint", "-sha256")
        return told.split("=")[1].strip().replace(":", "").lower()

    def _sublet(self, *words):
        words = [PROGRAM, *words, "--dir", str(self.folder)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"openssl {words}: {done.stderr}"
    return done.stdout


@dataclasses.dataclass
class NodeSetting:
    """What a node of a test is like: names and addresses of its members (none if etcd knows them), and amounts in
    MiB. Its name is that of its host, unless it has another."""

    members: dict
    ceiling: int
    borrow: int = 0
    listen: str = ""
    lend: tuple = ('cpu = "100%"',)
    peers: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    slow: str = "2ms"
    name: str = ""


class Node(Sublet):
    """One daemon on a host of the network."""

    def __init__(self, folder, host, authority, setting):
        self.host, self.name = host, setting.name or host.name
        home = pathlib.Path(folder) / host.name
        home.mkdir()
        certificate, key = authority.paths(self.name)
        named = ", ".join(f'"{name}=tcp:{address}"' for name, address in setting.members.items())
        tables = [
            "[peers]",
            f'node = "{self.name}"',
            f'cluster = "{authority.cluster}"',
            f'listen = "tcp:{setting.listen or host.address}:{PORT}"',
            *([f"members = [{named}]"] if named else []),
            f'ca = "{authority.folder}/ca.crt"',
            f'certificate = "{certificate}"',
            f'key = "{key}"',
            *setting.peers,
            "[lend]",
            *setting.lend,
            "[borrow]",
            f'max = "{setting.borrow}MiB"',
            f'[tenants.ring]\nlisten = ["ring:{home}/ring.sock"]\nspill = "{home}"\nspill_size = "32MiB"',
        ]
        if setting.slow:
            self.disk_options = ["--slow", setting.slow]
        super().__init__(home, setting.ceiling, "\n".join(tables) + "\n", host.words(), setting.env)

    def pause(self):
        """Stops it, as SIGSTOP does: it answers nobody, and its connections stand."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def reread(self):
        """Has it read passwords and certificates anew. It does so in the background."""
        self.process.send_signal(signal.SIGHUP)

    def lending(self):
        """How it stands with its peers."""
        return self.status()["lending"]

    def peer(self, name):
        return next(peer for peer in self.lending()["peers"] if peer["name"] == name)

    def is_up_with(self, name):
        return self.peer(name)["link"] == "up"

    def far_hits(self):
        """Pages that came from lenders since its start."""
        return sum(peer["pages"]["hits"] for peer in self.lending()["peers"])

    def lost(self, cause):
        """Pages that did not come, for a cause."""
        return sum(peer["pages"]["lost"].get(cause, 0) for peer in self.lending()["peers"])

    def leases(self):
        """Its leases, as a sorted list of peer, direction and number."""
        told = json.loads(self.call("lend", "list", "--json"))["leases"]
        return sorted((lease["peer"], lease["direction"], lease["lease"]) for lease in told)

    def events(self, beginning):
        """What happened, of kinds that begin so."""
        lines = self.call("events", "--json").splitlines()
        return [event for event in map(json.loads, lines) if event["id"].startswith(beginning)]

    def times(self, kind, reason):
        """How often something happened for a reason."""
        # What happens again within a second becomes one event, which gets its count after that.
        time.sleep(1.2)
        return sum(event["count"] for event in self.events(kind) if event["reason"] == reason)

    def log(self):
        return (self.folder / "sublet.log").read_text(errors="replace")

    def census(self):
        """What a leak would raise: descriptors, threads, and its own resident memory beside the arena. Free blocks stay
        in the arena until somebody needs them."""
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        amounts = [line.split() for line in (proc / "status").read_text().splitlines() if line.endswith(" kB")]
        memory = {name.rstrip(":"): kilobytes for name, kilobytes, _ in amounts}
        return {
            "descriptors": len(os.listdir(proc / "fd")),
            "threads": len(os.listdir(proc / "task")),
            "memory": (int(memory["RssAnon"]) << 10) - self.status()["arena"]["held"],
        }


def wait_until_up(node, *names, seconds=30):
    for name in names:
        eventually(f"{node.name} and {name} are connected", lambda: node.is_up_with(name), seconds)


def add_disk(node, name, size, content=None):
    """A disk of a node, with this content."""
    backing = node.folder / f"{name}.img"
    with open(backing, "wb") as file:
        file.write(content or b"")
        file.truncate(size)
    return node.add(name, "disk", size, backing)
