"""Starts the program under test as a node and speaks to it byte by byte.

NODE_PROGRAM is a `sublet` binary; with NODE_FACE=peer it is a memcached, and every test has to pass there too.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAM = os.environ.get("NODE_PROGRAM", "")
START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 20


def is_peer():
    """Whether a memcached stands in Sublet's place."""
    return os.environ.get("NODE_FACE") == "peer"


def faces():
    """The ways in which the program under test serves the protocol."""
    return ["peer"] if is_peer() else ["memcached", "serve"]


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(face, port, folder, options):
    """The command line of a node; `folder` is its own."""
    if face == "serve":
        assert not options, "`sublet serve` takes no options of memcached"
        return command_of_serve(port, folder)
    program = [PROGRAM] if face == "peer" else [PROGRAM, "memcached"]
    user = ["-u", "root"] if os.geteuid() == 0 else []
    return [*program, "-l", "127.0.0.1", "-p", str(port), "-U", "0", *user, *options]


def command_of_serve(port, folder):
    config = os.path.join(folder, "sublet.toml")
    with open(config, "w") as file:
        file.write(
            f'[daemon]\nstate = "{folder}/state"\n'
            '[arena]\nceiling = "64 MiB"\n'
            f'[admin]\nsocket = "{folder}/admin.sock"\n'
            f'[tenants.default]\nlisten = ["tcp:127.0.0.1:{port}"]\n'
        )
    return [PROGRAM, "serve", "--config", config]


class Node:
    """One running node on 127.0.0.1; `options` are memcached's own."""

    def __init__(self, face, options=(), port=None):
        self.face = face
        self.options = list(options)
        self.port = port or free_port()
        self.kept_until_the_end = tempfile.TemporaryDirectory(
            prefix="node-", ignore_cleanup_errors=True
        )
        self.folder = self.kept_until_the_end.name
        self.process = None
        self.start()

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def name(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Starts it and waits until it answers."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command(self.face, self.port, self.folder, self.options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "XDG_STATE_HOME": self.folder},
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.answers():
            assert self.process.poll() is None, f"it ended at its start:\n{self.log()}"
            assert time.monotonic() < deadline, f"it does not answer:\n{self.log()}"
            time.sleep(0.01)

    @property
    def log_path(self):
        return os.path.join(self.folder, "log")

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def answers(self):
        try:
            socket.create_connection(self.address, timeout=1).close()
            return True
        except OSError:
            return False

    def stop(self, sign=signal.SIGTERM):
        """Ends it with `sign`; says how it ended."""
        self.process.send_signal(sign)
        return self.process.wait(STOP_SECONDS_MAX)

    def kill(self):
        """Ends it without a chance to say goodbye."""
        self.stop(signal.SIGKILL)

    def close(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder)

    def rss_bytes(self):
        """What the kernel says it holds."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def wire(self):
        """A connection on which bytes are written as they stand."""
        return Wire(socket.create_connection(self.address, timeout=20))


class Wire:
    """A connection, byte by byte."""

    def __init__(self, sock):
        self.sock = sock
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, octets):
        self.sock.sendall(octets)

    def line(self):
        """The next line, without its end (dumps end their lines with a bare newline)."""
        while b"\n" not in self.rest:
            self._receive()
        line, self.rest = self.rest.split(b"\n", 1)
        return line.removesuffix(b"\r")

    def take(self, n):
        """The next `n` bytes."""
        while len(self.rest) < n:
            self._receive()
        taken, self.rest = self.rest[:n], self.rest[n:]
        return taken

    def ask(self, octets):
        """Sends, and returns the line that comes back."""
        self.send(octets)
        return self.line()

    def lines_to(self, last):
        """Lines up to `last`, which is not among them."""
        lines = []
        while (line := self.line()) != last:
            lines.append(line)
        return lines

    def is_closed(self):
        """Whether the other side has closed, all that it sent being read."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def _receive(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise EOFError(f"closed after {self.rest!r}")
        self.rest += piece
