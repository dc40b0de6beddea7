//! Binary requests and their replies, packet by packet.

mod harness;

use harness::{Client, Harness};
use sublet_frontends::memcached::session::LoopAction;
use sublet_frontends::memcached::settings::Settings;

const OPAQUE: [u8; 4] = [0xde, 0xad, 0xbe, 0xef];

/// The parts of a request.
#[derive(Clone, Copy, Default)]
struct RequestParts<'a> {
    opcode: u8,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    cas: u64,
}

impl RequestParts<'_> {
    fn bytes(&self) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend((self.key.len() as u16).to_be_bytes());
        bytes.extend([self.extras.len() as u8, 0, 0, 0]);
        bytes.extend((body as u32).to_be_bytes());
        bytes.extend(OPAQUE);
        bytes.extend(self.cas.to_be_bytes());
        for part in [self.extras, self.key, self.value] {
            bytes.extend(part);
        }
        bytes
    }
}

/// The parts of a reply.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    opcode: u8,
    status: u16,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: u64,
}

fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(24) {
        let number = |range: std::ops::Range<usize>| {
            head[range]
                .iter()
                .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        assert_eq!((head[0], &head[12..16]), (0x81, OPAQUE.as_slice()));
        let (extras, key) = (usize::from(head[4]), number(2..4) as usize);
        let (body, rest) = rest.split_at(number(8..12) as usize);
        replies.push(Reply {
            opcode: head[1],
            status: number(6..8) as u16,
            extras: body[..extras].to_vec(),
            key: body[extras..extras + key].to_vec(),
            value: body[extras + key..].to_vec(),
            cas: number(16..24),
        });
        bytes = rest;
    }
    assert_eq!(bytes, b"", "a reply that is cut off");
    replies
}

fn send_request(client: &mut Client<'_>, ask: RequestParts<'_>) -> Option<Reply> {
    let mut replies = replies(&client.send(&ask.bytes()));
    assert!(replies.len() <= 1);
    replies.pop()
}

/// Returns the status and the value of the only reply.
fn outcome(client: &mut Client<'_>, request: RequestParts<'_>) -> (u16, Vec<u8>) {
    let reply = send_request(client, request).expect("a reply");
    assert_eq!(reply.opcode, request.opcode);
    (reply.status, reply.value)
}

const SET: RequestParts<'_> = RequestParts {
    opcode: 0x01,
    extras: &[0, 0, 0, 5, 0, 0, 0, 0],
    key: b"k",
    value: b"value",
    cas: 0,
};

const GET: RequestParts<'_> = RequestParts {
    opcode: 0x00,
    extras: b"",
    key: b"k",
    value: b"",
    cas: 0,
};

#[test]
fn a_value_comes_back_with_flags_and_cas() {
    let harness = Harness::new(Settings::default());
    let client = &mut harness.connect();
    let missed = (1, b"Not found".to_vec());
    assert_eq!(outcome(client, GET), missed);
    let stored = send_request(client, SET).expect("a reply");
    assert_eq!((stored.status, stored.value.len()), (0, 0));
    assert_ne!(stored.cas, 0);
    let got = send_request(client, GET).expect("a reply");
    assert_eq!(
        (got.status, got.extras.as_slice(), got.value.as_slice()),
        (0, [0, 0, 0, 5].as_slice(), b"value".as_slice())
    );
    assert_eq!((got.cas, got.key.len()), (stored.cas, 0));
    let with_key = send_request(
        client,
        RequestParts {
            opcode: 0x0c,
            ..GET
        },
    )
    .expect("a reply");
    assert_eq!(
        (with_key.key.as_slice(), with_key.value.as_slice()),
        (b"k".as_slice(), b"value".as_slice())
    );
    let missed = send_request(
        client,
        RequestParts {
            opcode: 0x0c,
            key: b"none",
            ..GET
        },
    )
    .expect("a reply");
    assert_eq!(
        (missed.status, missed.key.as_slice(), missed.value.len()),
        (1, b"none".as_slice(), 0)
    );
}

#[test]
fn quiet_requests_tell_only_what_is_unusual() {
    let harness = Harness::new(Settings::default());
    let client = &mut harness.connect();
    for opcode in [0x09, 0x0d] {
        assert_eq!(
            send_request(client, RequestParts { opcode, ..GET }),
            None,
            "{opcode:#x} missed"
        );
    }
    assert_eq!(
        send_request(
            client,
            RequestParts {
                opcode: 0x11,
                ..SET
            }
        ),
        None
    );
    assert!(
        send_request(
            client,
            RequestParts {
                opcode: 0x09,
                ..GET
            }
        )
        .is_some()
    );
    assert_eq!(
        send_request(
            client,
            RequestParts {
                opcode: 0x13,
                ..SET
            }
        ),
        None
    );
    let exists = send_request(
        client,
        RequestParts {
            opcode: 0x12,
            ..SET
        },
    )
    .expect("the reply is an error");
    assert_eq!(
        (exists.status, exists.value.as_slice()),
        (2, b"Data exists for key.".as_slice())
    );
    assert_eq!(
        send_request(
            client,
            RequestParts {
                opcode: 0x19,
                extras: b"",
                ..SET
            }
        ),
        None
    );
    assert_eq!(
        send_request(
            client,
            RequestParts {
                opcode: 0x14,
                ..GET
            }
        ),
        None
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x14,
                ..GET
            }
        )
        .0,
        1
    );
    assert_eq!(
        send_request(
            client,
            RequestParts {
                opcode: 0x18,
                key: b"",
                ..GET
            }
        ),
        None
    );
}

#[test]
fn stores_have_their_statuses() {
    let harness = Harness::new(Settings::default());
    let client = &mut harness.connect();
    let join = RequestParts { extras: b"", ..SET };
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x03,
                ..SET
            }
        )
        .0,
        1
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x0e,
                ..join
            }
        )
        .0,
        5
    );
    assert_eq!(outcome(client, RequestParts { cas: 99, ..SET }).0, 1);
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x02,
                ..SET
            }
        )
        .0,
        0
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x02,
                ..SET
            }
        )
        .0,
        2
    );
    assert_eq!(outcome(client, RequestParts { cas: 99, ..SET }).0, 2);
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x0e,
                cas: 99,
                ..join
            }
        )
        .0,
        2
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x04,
                cas: 99,
                ..GET
            }
        )
        .0,
        2
    );
    let large = vec![b'x'; (1 << 20) + 1];
    assert_eq!(
        outcome(
            client,
            RequestParts {
                value: &large,
                ..SET
            }
        ),
        (3, b"Too large.".to_vec())
    );
    assert_eq!(outcome(client, GET).0, 1, "the old value is gone");
}

#[test]
fn counting_begins_at_the_initial_number() {
    let harness = Harness::new(Settings::default());
    let client = &mut harness.connect();
    let extras = |expiration: u32| {
        let mut extras = [0; 20];
        extras[7] = 3;
        extras[15] = 9;
        extras[16..].copy_from_slice(&expiration.to_be_bytes());
        extras
    };
    let (seed, none) = (extras(0), extras(0xffff_ffff));
    let up = RequestParts {
        opcode: 0x05,
        key: b"n",
        ..GET
    };
    assert_eq!(
        outcome(
            client,
            RequestParts {
                extras: &none,
                ..up
            }
        )
        .0,
        1
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                extras: &seed,
                ..up
            }
        ),
        (0, 9u64.to_be_bytes().to_vec())
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                extras: &seed,
                ..up
            }
        ),
        (0, 12u64.to_be_bytes().to_vec())
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                extras: &seed,
                opcode: 0x06,
                ..up
            }
        ),
        (0, 9u64.to_be_bytes().to_vec())
    );
    assert_eq!(
        send_request(
            client,
            RequestParts {
                extras: &seed,
                opcode: 0x15,
                ..up
            }
        ),
        None
    );
    assert_eq!(
        outcome(
            client,
            RequestParts {
                extras: &seed,
                cas: 1 << 60,
                ..up
            }
        )
        .0,
        2
    );
    assert_eq!(outcome(client, SET).0, 0);
    assert_eq!(
        outcome(
            client,
            RequestParts {
                extras: &seed,
                key: b"k",
                ..up
            }
        )
        .0,
        6
    );
}

#[test]
fn touch_returns_flags_and_no_value() {
    let harness = Harness::new(Settings::default());
    let client = &mut harness.connect();
    let hour: &[u8] = &[0, 0, 14, 16];
    let touch = RequestParts {
        opcode: 0x1c,
        extras: hour,
        ..GET
    };
    assert_eq!(outcome(client, touch).0, 1);
    assert_eq!(
        send_request(
            client,
            RequestParts {
                opcode: 0x1e,
                ..touch
            }
        ),
        None
    );
    send_request(client, SET);
    let touched = send_request(client, touch).expect("a reply");
    assert_eq!(
        (touched.extras.as_slice(), touched.value.len()),
        ([0, 0, 0, 5].as_slice(), 0)
    );
    let got = send_request(
        client,
        RequestParts {
            opcode: 0x23,
            ..touch
        },
    )
    .expect("a reply");
    assert_eq!(
        (got.key.as_slice(), got.value.as_slice()),
        (b"k".as_slice(), b"value".as_slice())
    );
}

#[test]
fn sizes_come_one_a_packet_and_the_next_request_waits_for_them() {
    let harness = Harness::new(Settings {
        track_sizes: true,
        ..Settings::default()
    });
    let mut client = harness.connect();
    let set = RequestParts {
        opcode: 0x01,
        extras: &[0; 8],
        key: b"k",
        value: b"a",
        ..RequestParts::default()
    };
    let sizes = RequestParts {
        opcode: 0x10,
        key: b"sizes",
        value: b"passed over",
        ..RequestParts::default()
    };
    let noop = RequestParts {
        opcode: 0x0a,
        ..RequestParts::default()
    };
    let asked = [set.bytes(), sizes.bytes(), noop.bytes()].concat();
    let replies = replies(&client.send(&asked));
    let reported: Vec<(u8, &[u8], &[u8])> = replies
        .iter()
        .map(|reply| (reply.opcode, reply.key.as_slice(), reply.value.as_slice()))
        .collect();
    let expected: [(u8, &[u8], &[u8]); 4] = [
        (0x01, b"", b""),
        (0x10, b"64", b"1"),
        (0x10, b"", b""),
        (0x0a, b"", b""),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn figures_come_as_packets() {
    let harness = Harness::new(Settings::default());
    let client = &mut harness.connect();
    let stat = RequestParts {
        opcode: 0x10,
        key: b"",
        ..GET
    };
    let figures = replies(&client.send(&stat.bytes()));
    let names: Vec<&[u8]> = figures.iter().map(|reply| reply.key.as_slice()).collect();
    assert!(names.contains(&b"curr_items".as_slice()));
    assert_eq!(names.last(), Some(&b"".as_slice()));
    assert_eq!(
        outcome(
            client,
            RequestParts {
                key: b"nothing",
                ..stat
            }
        )
        .0,
        1
    );
    let version = RequestParts {
        opcode: 0x0b,
        ..stat
    };
    assert_eq!(outcome(client, version), (0, b"1.6.45".to_vec()));
}

#[test]
fn wrong_requests_are_hung_up_on() {
    let long = [b'k'; 251];
    let cases = [
        (RequestParts { key: &long, ..GET }.bytes(), 0x04, true),
        (RequestParts { key: b"", ..GET }.bytes(), 0x04, true),
        (
            RequestParts {
                extras: b"xxxx",
                ..GET
            }
            .bytes(),
            0x04,
            true,
        ),
        (RequestParts { extras: b"", ..SET }.bytes(), 0x04, true),
        (
            RequestParts {
                opcode: 0xff,
                ..GET
            }
            .bytes(),
            0x81,
            false,
        ),
        (
            RequestParts {
                opcode: 0x21,
                ..GET
            }
            .bytes(),
            0x81,
            false,
        ),
    ];
    for (bytes, status, closes) in cases {
        let harness = Harness::new(Settings::default());
        let mut client = harness.connect();
        let reply = replies(&client.send(&bytes));
        assert_eq!((reply.len(), reply[0].status), (1, status));
        assert_eq!(client.last == LoopAction::Close, closes, "{status:#x}");
    }
    let harness = Harness::new(Settings::default());
    let mut client = harness.connect();
    let mut short = GET.bytes();
    short[11] = 0;
    assert_eq!(replies(&client.send(&short))[0].status, 0x81);
    assert_eq!(client.last, LoopAction::Close);
}

#[test]
fn sasl_accepts_a_client_with_the_password() {
    let harness = Harness::new(Settings {
        sasl: true,
        ..Settings::default()
    });
    let client = &mut harness.connect();
    assert_eq!(outcome(client, GET).0, 0x20);
    assert_eq!(client.last, LoopAction::Close);

    let client = &mut harness.connect();
    let list = RequestParts {
        opcode: 0x20,
        key: b"",
        ..GET
    };
    assert_eq!(outcome(client, list), (0, b"PLAIN".to_vec()));
    let auth = RequestParts {
        opcode: 0x21,
        key: b"PLAIN",
        value: b"\0user\0wrong",
        ..GET
    };
    assert_eq!(outcome(client, auth).0, 0x20);
    assert_eq!(
        outcome(
            client,
            RequestParts {
                opcode: 0x22,
                ..auth
            }
        )
        .0,
        0x20
    );
    let auth = RequestParts {
        value: b"\0user\0pass",
        ..auth
    };
    assert_eq!(outcome(client, auth), (0, b"Authenticated".to_vec()));
    assert_eq!(outcome(client, GET).0, 1);
}
