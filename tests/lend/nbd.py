"""A client of an NBD disk at a Unix socket, one request at a time."""

import os
import socket
import struct

OPTION_MAGIC, REPLY_MAGIC = b"IHAVEOPT", 0x3E889045565A9
REQUEST, REPLY = struct.Struct(">IHHQQI"), struct.Struct(">IIQ")
GO, ACK = 7, 1
READ, WRITE, FLUSH = 0, 1, 3
FIXED_NEWSTYLE_NO_ZEROES = 3


class Refused(AssertionError):
    """The disk answered a request with an error."""


class Nbd:
    """A connection to an export."""

    def __init__(self, path, export, seconds=60):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        self._socket.connect(os.fspath(path))
        self._cookie = 0
        self._agree(export.encode())

    def read(self, at, count):
        return self._ask(READ, at, count, b"", count)

    def write(self, at, data):
        self._ask(WRITE, at, len(data), data, 0)

    def flush(self):
        self._ask(FLUSH, 0, 0, b"", 0)

    def close(self):
        self._socket.close()

    def _agree(self, export):
        assert self._exactly(8) == b"NBDMAGIC" and self._exactly(8) == OPTION_MAGIC
        self._exactly(2)
        self._socket.sendall(struct.pack(">I", FIXED_NEWSTYLE_NO_ZEROES))
        body = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        self._socket.sendall(OPTION_MAGIC + struct.pack(">II", GO, len(body)) + body)
        while True:
            magic, option, kind, count = struct.unpack(">QIII", self._exactly(20))
            assert (magic, option) == (REPLY_MAGIC, GO)
            self._exactly(count)
            if kind == ACK:
                return
            assert kind < 1 << 31, f"the disk {export} is refused: {kind:x}"

    def _ask(self, verb, at, count, data, answered):
        self._cookie += 1
        self._socket.sendall(REQUEST.pack(0x25609513, 0, verb, self._cookie, at, count) + data)
        magic, error, cookie = REPLY.unpack(self._exactly(REPLY.size))
        assert (magic, cookie) == (0x67446698, self._cookie)
        if error:
            raise Refused(f"verb {verb} of {count} bytes at {at}: error {error}")
        return self._exactly(answered)

    def _exactly(self, count):
        got = bytearray()
        while len(got) < count:
            piece = self._socket.recv(count - len(got))
            if not piece:
                raise EOFError("the disk's server hung up")
            got += piece
        return bytes(got)
