"""What clients asked for and got, as lines of JSON for `sublet-lab sim judge` (docs/simulator/cluster.md)."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

from programs import Missing
from served import PROGRAM

JUDGE_SECONDS_MAX = 300


def lab():
    """The laboratory, whose simulator has the judges."""
    program = os.environ.get("LAB_PROGRAM") or pathlib.Path(PROGRAM).with_name("sublet-lab")
    if not os.access(program, os.X_OK):
        raise Missing(f"{program} is not there: cargo build -p sublet-lab makes it; LAB_PROGRAM names another one")
    return program


class History:
    """Files of clients, one each."""

    def __init__(self, folder):
        self.lab, self.folder = lab(), pathlib.Path(folder) / "history"
        self.folder.mkdir()

    def of(self, client, promises):
        """The file of a client that uses pools; of each what it promises."""
        return ClientHistory(self._file(client), client, promises)

    def judge(self):
        """What the judges say. Fails if one objects."""
        done = self._judge(sorted(self.folder.iterdir()))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def objection(self, client, alter):
        """What the judges say of a client's calls alone, of which the first was altered for which `alter` gives another
        one. They have to object to that."""
        file = self._file(client)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        place, altered = next((place, new) for place, line in enumerate(lines) if (new := alter(line)))
        lines[place] = altered
        other = file.with_suffix(".altered")
        other.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = self._judge([other])
        other.unlink()
        assert done.returncode == 1 and f"{other}:{place + 1}: " in done.stderr, done.stdout + done.stderr
        return done.stderr

    def _file(self, client):
        return self.folder / f"{client}.jsonl"

    def _judge(self, files):
        words = [self.lab, "sim", "judge", *files]
        return subprocess.run(words, capture_output=True, text=True, timeout=JUDGE_SECONDS_MAX)


class ClientHistory:
    """The calls of one client."""

    def __init__(self, path, client, promises):
        self._file, self._client = open(path, "w"), client
        for pool, promise in promises.items():
            self._write({"kind": "pool", "pool": pool, "promise": promise})

    @contextlib.contextmanager
    def call(self, kind, pool, page):
        """A call that goes on in the `with`, which adds what became of it. One that fails has no answer."""
        line = {"kind": kind, "client": self._client, "pool": pool, "page": page, "began": time.monotonic_ns()}
        try:
            yield line
            line["ended"] = time.monotonic_ns()
        finally:
            if kind != "read" or "found" in line:
                self._write({"ended": None, **line})

    def close(self):
        self._file.close()

    def _write(self, line):
        self._file.write(json.dumps(line) + "\n")
