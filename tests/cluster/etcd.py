"""etcds on hosts of the network, of which a test takes some away."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile

from nodes import eventually, openssl
from programs import Missing

CLIENTS, PEERS = 2379, 2380
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20
# Data lie in memory, because disks of machines that others use take seconds to write.
MEMORY = "/dev/shm"
USER, PASSWORD = "sublet", "known to nodes"


class Etcd:
    """An etcd of some members, each on a host `etcd1`, `etcd2`, … of its own. If it is `secured`, its members have
    certificates, and nodes are a user with a password."""

    def __init__(self, network, folder, members=1, secured=False):
        if not shutil.which("etcd") or not shutil.which("etcdctl"):
            raise Missing("etcd is not on this machine: apt-get install etcd-server etcd-client")
        self.hosts = [network.add(f"etcd{number + 1}") for number in range(members)]
        self.running = {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sublet-etcd-", dir=MEMORY))
        self.files = Files(pathlib.Path(folder) / "etcd", self.hosts) if secured else None
        self.passwords = []
        self.user = None

    def start(self):
        """Starts all members and waits until they serve."""
        self.start_members()
        if self.files:
            self._make_users()
        return self

    def start_members(self):
        """Starts the members that do not run, and waits until a majority serves."""
        for host in self.hosts:
            if host.name not in self.running:
                self._start(host)
        self.wait_until_it_serves()

    def settings(self, password=PASSWORD):
        """Lines of a node's config."""
        lines = [f"etcd = {json.dumps([self._clients(host) for host in self.hosts])}"]
        if self.files:
            said = self.files.folder / f"password-{len(self.passwords)}"
            self.passwords.append(said)
            said.write_text(f"{password}\n")
            lines += [
                f'etcd_ca = "{self.files.authority}"',
                f'etcd_user = "{USER}"',
                f'etcd_password_file = "{said}"',
            ]
        return tuple(lines)

    def write_password(self, text):
        """Writes another password into the files of all nodes."""
        for said in self.passwords:
            said.write_text(f"{text}\n")

    def change_password(self, text):
        """Gives the nodes' user another password. The nodes' files stay as they are."""
        self.ctl("user", "passwd", USER, "--interactive=false", said=f"{text}\n")

    def change_authority(self):
        """Gives all members certificates of another authority, and starts them again. The nodes' file has it, too."""
        self.kill()
        self.files.make()
        self.start_members()

    def kill(self, *hosts):
        """Kills these members, or all."""
        for host in hosts or self.hosts:
            process = self.running.pop(host.name)
            process.kill()
            process.wait(STOP_SECONDS_MAX)

    def leader(self):
        """The host of the member that leads etcd."""
        found = []

        def look():
            for host in self.hosts:
                status = self._status(host) if host.name in self.running else None
                if status and status["leader"] == status["header"]["member_id"]:
                    found.append(host)
            return bool(found)

        eventually("etcd has a leader", look, START_SECONDS_MAX)
        return found[0]

    def ctl(self, *words, said=None):
        """What etcdctl says, which may be told something; it has to succeed."""
        done = self._ctl(self.hosts, *words, said=said)
        assert done.returncode == 0, f"etcdctl {words}: {done.stderr}"
        return done.stdout

    def keys(self):
        return [line for line in self.ctl("get", "--prefix", "--keys-only", "/sublet/").split() if line]

    def wait_until_it_serves(self):
        serves = lambda: self._ctl(self.hosts, "get", "/").returncode == 0
        eventually("etcd serves", serves, START_SECONDS_MAX)

    def close(self):
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)
            process.wait(STOP_SECONDS_MAX)
        shutil.rmtree(self.folder)

    def _start(self, host):
        initial = ",".join(f"{each.name}={self._peers(each)}" for each in self.hosts)
        words = [*host.words(), "etcd", "--name", host.name, "--logger", "zap", "--data-dir", self.folder / host.name]
        words += ["--listen-client-urls", self._clients(host), "--advertise-client-urls", self._clients(host)]
        words += ["--listen-peer-urls", self._peers(host), "--initial-advertise-peer-urls", self._peers(host)]
        words += ["--initial-cluster", initial]
        if len(self.hosts) > 1:
            # Members on a machine that others use are slow to answer each other.
            words += ["--heartbeat-interval", "500", "--election-timeout", "5000"]
        if self.files:
            words += ["--cert-file", self.files.certificate(host), "--key-file", self.files.key(host)]
        with open(self.folder / f"{host.name}.log", "ab") as log:
            self.running[host.name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _make_users(self):
        """A root, and the nodes' user, who may do what the cluster needs and nothing else."""
        for words in (
            ["role", "add", "root"],
            ["role", "add", "nodes"],
            ["role", "grant-permission", "nodes", "readwrite", "--prefix=true", "/sublet/default/1/"],
            ["user", "add", "root:of root"],
            ["user", "add", f"{USER}:{PASSWORD}"],
            ["user", "grant-role", "root", "root"],
            ["user", "grant-role", USER, "nodes"],
            ["auth", "enable"],
        ):
            self.ctl(*words)
        self.user = "root:of root"

    def _status(self, host):
        done = self._ctl([host], "endpoint", "status", "--write-out", "json")
        return json.loads(done.stdout)[0]["Status"] if done.returncode == 0 else None

    def _ctl(self, hosts, *words, said=None):
        options = ["--endpoints", ",".join(self._clients(host) for host in hosts), "--command-timeout", "3s"]
        options += ["--cacert", self.files.authority] if self.files else []
        options += ["--user", self.user] if self.user else []
        command = [*self.hosts[0].words(), "env", "ETCDCTL_API=3", "etcdctl", *options, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, input=said)

    def _clients(self, host):
        return f"{'https' if self.files else 'http'}://{host.address}:{CLIENTS}"

    def _peers(self, host):
        return f"http://{host.address}:{PEERS}"


class Files:
    """An authority for etcd, and certificates of its members."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts = folder, hosts
        folder.mkdir()
        self.authority = folder / "ca.crt"
        self.make()

    def make(self):
        """Makes an authority and certificates, over those that are there."""
        made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 1]
        name = ["-subj", "/CN=etcd of a test"]
        openssl("req", "-x509", *made, *name, "-keyout", self.folder / "ca.key", "-out", self.authority)
        for host in self.hosts:
            self._issue(host, made)

    def certificate(self, host):
        return self.folder / f"{host.name}.crt"

    def key(self, host):
        return self.folder / f"{host.name}.key"

    def _issue(self, host, made):
        request, names = self.folder / f"{host.name}.csr", self.folder / f"{host.name}.names"
        # etcd's gateway calls its own member with the member's certificate.
        names.write_text(f"subjectAltName=IP:{host.address}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("req", *made[:-2], "-subj", f"/CN={host.name}", "-keyout", self.key(host), "-out", request)
        signed = ["-CA", self.authority, "-CAkey", self.folder / "ca.key", "-set_serial", 1 + host.number, "-days", 1]
        openssl("x509", "-req", "-in", request, *signed, "-extfile", names, "-out", self.certificate(host))
