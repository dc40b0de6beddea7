"""A mutant: an NBD proxy that keeps every FLUSH and every FUA from the disk behind it, and lets all else through.

Each FLUSH becomes a CACHE of one sector, whose reply looks the same; the way back needs no look."""

import socket
import struct
import threading

OPTION_MAGIC = b"IHAVEOPT"
REQUEST = struct.Struct(">IHHQQI")
REQUEST_MAGIC = 0x25609513
WRITE, FLUSH, CACHE = 1, 3, 5
FUA = 1


class Deaf:
    """Listens at `path` for the disk at `behind`."""

    def __init__(self, path, behind):
        self.path, self.behind = path, behind
        self.swallowed = 0
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._door.close()
        self.path.unlink(missing_ok=True)

    def _serve(self):
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            disk = socket.socket(socket.AF_UNIX)
            try:
                disk.connect(str(self.behind))
            except OSError:
                client.close()
                continue
            for pass_on in (self._forth, back):
                threading.Thread(target=until_it_ends, args=(pass_on, client, disk), daemon=True).start()

    def _forth(self, client, disk):
        stream = client.makefile("rb")
        disk.sendall(exactly(stream, 4))
        head = exactly(stream, 8)
        while head == OPTION_MAGIC:
            option = exactly(stream, 8)
            disk.sendall(head + option + exactly(stream, struct.unpack(">II", option)[1]))
            head = exactly(stream, 8)
        while True:
            self._pass_request(head + exactly(stream, REQUEST.size - len(head)), stream, disk)
            head = exactly(stream, 8)

    def _pass_request(self, head, stream, disk):
        magic, flags, verb, cookie, at, count = REQUEST.unpack(head)
        assert magic == REQUEST_MAGIC
        payload = exactly(stream, count) if verb == WRITE else b""
        if verb == FLUSH:
            self.swallowed += 1
            verb, at, count = CACHE, 0, 512
        disk.sendall(REQUEST.pack(magic, flags & ~FUA, verb, cookie, at, count) + payload)


def back(client, disk):
    while piece := disk.recv(1 << 16):
        client.sendall(piece)


def exactly(stream, count):
    piece = stream.read(count)
    if len(piece) != count:
        raise EOFError
    return piece


def until_it_ends(pass_on, client, disk):
    """Passes bytes on until a side goes, then shuts both."""
    try:
        pass_on(client, disk)
    except (OSError, EOFError, ValueError):
        pass
    for side in (client, disk):
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
