"""The meta protocol, as a conversation."""

import pytest

CONVERSATIONS = {
    "set and get": [
        (b"ms k 2 T0 F5 c\r\nhi\r\n", rb"HD c\d+"),
        (b"mg k v f s t k\r\n", rb"VA 2 f5 s2 t-1 kk"),
        (None, rb"hi"),
        (b"mg k\r\n", rb"HD"),
        (b"mg nothing v\r\n", rb"EN"),
    ],
    "opaque and quiet": [
        (b"mg nothing v q\r\nms k 1 q O1\r\nx\r\nmn\r\n", rb"MN"),
        (b"mg k v k O77\r\n", rb"VA 1 kk O77"),
        (None, rb"x"),
        (b"md nothing q\r\nmn\r\n", rb"NF"),
        (None, rb"MN"),
    ],
    "modes": [
        (b"ms k 1 MR\r\nx\r\n", rb"NS"),
        (b"ms k 1 ME\r\nb\r\n", rb"HD"),
        (b"ms k 1 ME\r\nx\r\n", rb"NS"),
        (b"ms k 1 MA\r\nc\r\n", rb"HD"),
        (b"ms k 1 MP\r\na\r\n", rb"HD"),
        (b"mg k v\r\n", rb"VA 3"),
        (None, rb"abc"),
        (b"ms k 1 MX\r\nx\r\n", rb"CLIENT_ERROR invalid mode.*"),
    ],
    "cas": [
        (b"ms k 1 E100\r\nx\r\n", rb"HD"),
        (b"mg k c\r\n", rb"HD c100"),
        (b"ms k 1 C99\r\ny\r\n", rb"EX"),
        (b"ms k 1 C100 E200\r\ny\r\n", rb"HD"),
        (b"mg k v c\r\n", rb"VA 1 c200"),
        (None, rb"y"),
        (b"ms nothing 1 C1\r\nx\r\n", rb"NF"),
    ],
    "a miss is made, and one reader wins": [
        (b"mg k s v N30 t\r\n", rb"VA 0 s0 t30 W"),
        (None, rb""),
        (b"mg k s v N30 t\r\n", rb"VA 0 s0 t\d+ Z"),
        (None, rb""),
        (b"ms k 3 T100\r\nnew\r\n", rb"HD"),
        (b"mg k v N30\r\n", rb"VA 3"),
        (None, rb"new"),
    ],
    "an early refresh, and one reader wins": [
        (b"ms k 1 T10\r\nx\r\n", rb"HD"),
        (b"mg k v R30\r\n", rb"VA 1 W"),
        (None, rb"x"),
        (b"mg k v R30\r\n", rb"VA 1 Z"),
        (None, rb"x"),
    ],
    "stale while it is refreshed": [
        (b"ms k 1 T100\r\nx\r\n", rb"HD"),
        (b"md k I T30\r\n", rb"HD"),
        (b"mg k v c t\r\n", rb"VA 1 c\d+ t\d+ X W|VA 1 c\d+ t\d+ W X"),
        (None, rb"x"),
        (b"mg k v\r\n", rb"VA 1 X Z|VA 1 Z X"),
        (None, rb"x"),
    ],
    "arithmetic": [
        (b"ma k\r\n", rb"NF"),
        (b"ma k N0 J13 v\r\n", rb"VA 2"),
        (None, rb"13"),
        (b"ma k v D30\r\n", rb"VA 2"),
        (None, rb"43"),
        (b"ma k MD D100 v\r\n", rb"VA 1"),
        (None, rb"0"),
        (b"ma k D-1\r\n", rb"CLIENT_ERROR .*"),
    ],
    "keys in base64": [
        (b"ms Zm9v 2 b\r\nhi\r\n", rb"HD"),
        (b"get foo\r\n", rb"VALUE foo 0 2"),
        (None, rb"hi"),
        (None, rb"END"),
        (b"mg Zm9v b k v\r\n", rb"VA 2 kZm9v b"),
        (None, rb"hi"),
    ],
    "errors leave the connection": [
        (b"mg\r\n", rb"CLIENT_ERROR .*|ERROR"),
        (b"mg k v v\r\n", rb"CLIENT_ERROR duplicate flag"),
        (b"ms k abc\r\n", rb"CLIENT_ERROR bad data chunk|CLIENT_ERROR .*"),
        (b"mn\r\n", rb"MN"),
    ],
    "what an item is": [
        (b"me nothing\r\n", rb"EN"),
        (b"set k 0 0 1\r\nx\r\n", rb"STORED"),
        (b"me k\r\n", rb"ME k exp=-1 la=\d+ cas=\d+ fetch=no cls=\d+ size=\d+"),
        (b"mg k h l t\r\n", rb"HD h0 l\d+ t-1"),
        (b"mg k h\r\n", rb"HD h1"),
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation(node, name):
    import re

    with node.wire() as wire:
        for said, wanted in CONVERSATIONS[name]:
            if said is not None:
                wire.send(said)
            heard = wire.line()
            assert re.fullmatch(wanted, heard), f"after {said!r} came {heard!r}, wanted {wanted!r}"


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation_a_byte_at_a_time(nodes, name):
    import re

    node = nodes()
    with node.wire() as wire:
        for said, wanted in CONVERSATIONS[name]:
            for n in range(len(said or b"")):
                wire.send(said[n : n + 1])
            assert re.fullmatch(wanted, wire.line())
