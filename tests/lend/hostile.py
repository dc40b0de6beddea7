"""Who may call a node and is no member, or no daemon: TLS and the first lines of a control connection, by hand."""

import json
import os
import socket
import ssl

from nodes import PORT


def call(host, node, files=None, port=PORT):
    """A TLS connection from a host to a node's port, with this certificate and key. It trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if files:
        context.load_cert_chain(*files)
    return context.wrap_socket(host.connect(node.host.address, port))


def hello(name, cluster="default", versions=(1, 1), session=1):
    """The first line of a control connection."""
    fields = {
        "kind": "hello",
        "versions": list(versions),
        "cluster": cluster,
        "node": name,
        "incarnation": os.urandom(8).hex(),
        "session": session,
        "nonce": os.urandom(32).hex(),
        "addresses": [],
    }
    return json.dumps(fields).encode() + b"\n"


def page_hello(session=1, number=1):
    """The hello of a connection for pages, whose proof is none."""
    head = b"SBLD" + (1).to_bytes(2, "little") + b"\1\0"
    return head + os.urandom(24) + session.to_bytes(8, "little") + number.to_bytes(8, "little") + os.urandom(32)


def said(connection):
    """All that a node says until it closes."""
    heard = b""
    try:
        while piece := connection.recv(1 << 16):
            heard += piece
    except (OSError, ssl.SSLError, socket.timeout):
        pass
    connection.close()
    return heard


def lines(heard):
    """The messages in what a node said on a control connection."""
    return [json.loads(line) for line in heard.splitlines() if line]
