"""A proxy beside a lender, which delays, alters, cuts off or keeps what the lender answers (programs/meddler.c)."""

import pathlib
import subprocess

from nodes import PORT
from programs import alone, built

PROGRAMS = pathlib.Path(__file__).parent / "programs"
PROXY_PORT = 7272


class Proxy:
    """Listens on a node's host for the node. A borrower that is to meet it has its address instead of the node's."""

    def __init__(self, host):
        self.address = f"{host.address}:{PROXY_PORT}"
        with alone():
            program = built("meddler", PROGRAMS)
        words = [*host.words(), program, host.address, str(PROXY_PORT), host.address, str(PORT)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._heard() == "ready"

    def order(self, *words):
        """Has it do something else from now on; programs/meddler.c says what there is."""
        self._say(" ".join(map(str, words)))
        assert self._heard() == "done"

    def report(self):
        """How many chunks it held, how many microseconds too long in the mean, and how many bits it changed."""
        self._say("report")
        _, held, too_long, altered = self._heard().split()
        return int(held), float(too_long), int(altered)

    def close(self):
        self._process.kill()
        self._process.wait()

    def _say(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _heard(self):
        line = self._process.stdout.readline()
        assert line, "the proxy ended"
        return line.strip()
