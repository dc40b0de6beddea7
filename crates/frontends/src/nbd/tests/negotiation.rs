//! Options and the replies to them.

use std::sync::Arc;

use super::fake_disk::{AnswerMode, FakeDisk};
use super::loopback::{LoopbackClient, ReplyReader, contexts, export_query, option, request};
use crate::block_device::DiskShape;
use crate::nbd::Exports;
use crate::nbd::session::LoopAction;
use crate::nbd::session::negotiation::TlsState;

const MIB: u64 = 1 << 20;
const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
const BOTH: [u8; 4] = [0, 0, 0, 3];

const ACK: u32 = 1;
const UNSUP: u32 = 0x8000_0001;
const POLICY: u32 = 0x8000_0002;
const INVALID: u32 = 0x8000_0003;
const TLS_REQD: u32 = 0x8000_0005;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

fn exports() -> Arc<Exports> {
    let exports = Exports::default();
    exports
        .add(FakeDisk::new("a", MIB, AnswerMode::Prompt))
        .expect("room");
    let fixed = DiskShape {
        bytes: 4096,
        read_only: true,
        trims: true,
    };
    exports
        .add(FakeDisk::shaped("fixed", fixed, AnswerMode::Prompt, None))
        .expect("room");
    Arc::new(exports)
}

/// A client after the greetings.
fn line(tls: TlsState) -> LoopbackClient {
    let mut line = LoopbackClient::new(&exports(), tls);
    assert_eq!(line.take_replies(), GREETING);
    line.send(&BOTH);
    line
}

/// The types of all replies to one option, and their bytes.
fn replies(line: &mut LoopbackClient, number: u32, payload: &[u8]) -> Vec<(u32, Vec<u8>)> {
    line.send(&option(number, payload));
    let answers = line.take_replies();
    let mut reader = ReplyReader(&answers);
    let mut replies = Vec::new();
    while !reader.0.is_empty() {
        assert_eq!(reader.u64(), 0x0003_e889_0455_65a9);
        assert_eq!(reader.u32(), number, "it answers what was asked");
        let (kind, len) = (reader.u32(), reader.u32());
        replies.push((kind, reader.bytes(len as usize).to_vec()));
    }
    replies
}

fn kinds(line: &mut LoopbackClient, number: u32, payload: &[u8]) -> Vec<u32> {
    let replies = replies(line, number, payload);
    replies.into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn an_export_name_is_answered_with_and_without_zeroes() {
    for (flags, zeroes) in [(3_u32, 0), (1, 124)] {
        let mut line = LoopbackClient::new(&exports(), TlsState::Absent);
        line.take_replies();
        line.send(&flags.to_be_bytes());
        line.send(&option(1, b"a"));
        let answers = line.take_replies();
        let mut reader = ReplyReader(&answers);
        // Flags, FLUSH, FUA, TRIM, WRITE_ZEROES, MULTI_CONN, CACHE, FAST_ZERO.
        assert_eq!((reader.u64(), reader.u16()), (MIB, 0b1101_0110_1101));
        assert_eq!(reader.0, vec![0; zeroes]);
        line.send(&request(0, 0, 9, 0, 2));
        assert_eq!(
            line.take_replies(),
            b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x09\0\0"
        );
    }
    let mut lost = line(TlsState::Absent);
    lost.send(&option(1, b"b"));
    assert_eq!((lost.next, lost.replies.len()), (LoopAction::Close, 0));
}

#[test]
fn go_tells_what_was_asked_for_and_serves() {
    let mut line = line(TlsState::Absent);
    assert_eq!(kinds(&mut line, 8, b""), [ACK]);
    let answers = replies(&mut line, 6, &export_query("fixed", &[]));
    // Flags, READ_ONLY, FLUSH, FUA, DF, MULTI_CONN, CACHE.
    assert_eq!(answers[0], (3, b"\0\0\0\0\0\0\0\0\x10\0\x05\x8f".to_vec()));
    assert_eq!(answers[1..], [(ACK, Vec::new())]);
    let answers = replies(&mut line, 7, &export_query("a", &[1, 2, 3, 99]));
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[1], (3, b"\0\x01a".to_vec()));
    assert_eq!(
        answers[2],
        (3, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0".to_vec())
    );
    line.send(&request(0, 0, 1, 4096, 1));
    assert_eq!(
        line.take_replies(),
        b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x09\0\0\0\0\0\0\x10\0\0"
    );
}

#[test]
fn the_empty_name_means_the_only_disk() {
    let both = exports();
    let mut line = LoopbackClient::new(&both, TlsState::Absent);
    line.take_replies();
    line.send(&BOTH);
    assert_eq!(kinds(&mut line, 6, &export_query("", &[])), [UNKNOWN]);
    assert!(both.remove("fixed").is_some());
    let answers = replies(&mut line, 6, &export_query("", &[1]));
    assert_eq!(answers[1], (3, b"\0\x01a".to_vec()));
    assert_eq!(kinds(&mut line, 7, &export_query("b", &[])), [UNKNOWN]);
}

#[test]
fn what_is_unknown_wrong_or_too_long_is_refused_and_haggling_goes_on() {
    let mut line = line(TlsState::Absent);
    assert_eq!(kinds(&mut line, 4, b"what"), [UNSUP]);
    assert_eq!(kinds(&mut line, 11, b""), [UNSUP]);
    assert_eq!(kinds(&mut line, 99, &[0; 1 << 16]), [UNSUP]);
    assert_eq!(kinds(&mut line, 99, &[0; (1 << 16) + 1]), [TOO_BIG]);
    assert_eq!(kinds(&mut line, 5, b""), [POLICY]);
    for bare in [3, 5, 8] {
        assert_eq!(kinds(&mut line, bare, b"x"), [INVALID]);
    }
    let crooked: [&[u8]; 6] = [
        b"",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x01a",
        b"\0\0\0\x01a\0\x01",
        b"\0\0\0\x01a\0\0x",
        b"\0\0\0\x01\xff\0\0",
    ];
    for payload in crooked {
        assert_eq!(kinds(&mut line, 7, payload), [INVALID], "{payload:?}");
    }
    assert_eq!(kinds(&mut line, 7, &export_query("a\0", &[])), [INVALID]);
    assert_eq!(
        kinds(&mut line, 7, &export_query(&"a".repeat(4097), &[])),
        [INVALID]
    );
    let names: Vec<Vec<u8>> = replies(&mut line, 3, b"")
        .into_iter()
        .map(|(_, payload)| payload)
        .collect();
    assert_eq!(names, [&b"\0\0\0\x01a"[..], b"\0\0\0\x05fixed", b""]);
    assert_eq!(kinds(&mut line, 2, b""), [ACK]);
    assert_eq!(line.next, LoopAction::Close);
}

#[test]
fn contexts_are_chosen_for_one_disk() {
    let mut line = line(TlsState::Absent);
    assert_eq!(
        kinds(&mut line, 9, &contexts("a", &[])),
        [INVALID],
        "chunks first"
    );
    assert_eq!(kinds(&mut line, 8, b""), [ACK]);
    let listed =
        |line: &mut LoopbackClient, queries: &[&str]| kinds(line, 9, &contexts("a", queries));
    assert_eq!(listed(&mut line, &[]), [4, ACK]);
    assert_eq!(listed(&mut line, &["base:"]), [4, ACK]);
    assert_eq!(listed(&mut line, &["qemu:", "base:allocation"]), [4, ACK]);
    assert_eq!(listed(&mut line, &["base:allocatio"]), [ACK]);
    assert_eq!(kinds(&mut line, 9, &contexts("b", &[])), [UNKNOWN]);
    assert_eq!(kinds(&mut line, 10, &contexts("a", &["base:"])), [ACK]);
    assert_eq!(kinds(&mut line, 10, b"\0\0\0\x01a\0\0\0\x01"), [INVALID]);
    let chosen = replies(&mut line, 10, &contexts("a", &["base:allocation"]));
    assert_eq!(chosen[0], (4, b"\0\0\0\x01base:allocation".to_vec()));
    assert_eq!(kinds(&mut line, 7, &export_query("fixed", &[])), [3, ACK]);
    line.send(&request(0, 7, 1, 0, 512));
    let answers = line.take_replies();
    assert_eq!(
        &answers[4..8],
        b"\0\x01\x80\x01",
        "another disk's contexts are not this one's"
    );
    assert_eq!(&answers[20..24], b"\0\0\0\x16");
}

#[test]
fn where_there_is_tls_nothing_is_told_without_it() {
    let mut line = line(TlsState::Required);
    for number in [3, 6, 7, 8, 9, 10, 99] {
        assert_eq!(kinds(&mut line, number, b""), [TLS_REQD]);
    }
    assert_eq!(kinds(&mut line, 5, b"x"), [INVALID]);
    assert_eq!(kinds(&mut line, 5, b""), [ACK]);
    assert_eq!(line.next, LoopAction::Tls);
    line.begin_tls();
    assert_eq!(kinds(&mut line, 5, b""), [INVALID]);
    assert_eq!(kinds(&mut line, 7, &export_query("a", &[])), [3, ACK]);
    let mut old = self::line(TlsState::Required);
    old.send(&option(1, b"a"));
    assert_eq!((old.next, old.replies.len()), (LoopAction::Close, 0));
    let mut leaving = self::line(TlsState::Required);
    assert_eq!(kinds(&mut leaving, 2, b""), [ACK]);
}

#[test]
fn what_is_not_nbd_ends_it() {
    let mut other = LoopbackClient::new(&exports(), TlsState::Absent);
    other.send(b"GET ");
    assert_eq!(other.next, LoopAction::ProtocolError);
    let mut magic = line(TlsState::Absent);
    magic.send(b"IHAVEOPTIHAVEOPT");
    assert_eq!(
        magic.next,
        LoopAction::Read,
        "option 1,229,471,318 is merely long"
    );
    let mut magic = line(TlsState::Absent);
    magic.send(b"ihaveopt\0\0\0\x03\0\0\0\0");
    assert_eq!(magic.next, LoopAction::ProtocolError);
    let mut long = line(TlsState::Absent);
    long.send(b"IHAVEOPT\0\0\0\x01\xff\xff\xff\xff");
    assert_eq!(
        long.next,
        LoopAction::ProtocolError,
        "an export name cannot be refused"
    );
    let mut requests = line(TlsState::Absent);
    assert_eq!(kinds(&mut requests, 7, &export_query("a", &[])), [3, ACK]);
    requests.send(&[0; 28]);
    assert_eq!(requests.next, LoopAction::ProtocolError);
}
