//! Options, and what is said to them.

use std::sync::Arc;

use super::fake_disk::{FakeDisk, Mood};
use super::line::{Ear, Line, contexts, option, request, wish};
use crate::block::Shape;
use crate::nbd::Exports;
use crate::nbd::session::Next;
use crate::nbd::session::negotiate::Tls;

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
        .add(FakeDisk::new("a", MIB, Mood::Prompt))
        .expect("room");
    let fixed = Shape {
        bytes: 4096,
        read_only: true,
        trims: true,
    };
    exports
        .add(FakeDisk::shaped("fixed", fixed, Mood::Prompt, None))
        .expect("room");
    Arc::new(exports)
}

/// A line on which the greetings are over.
fn line(tls: Tls) -> Line {
    let mut line = Line::new(&exports(), tls);
    assert_eq!(line.take_heard(), GREETING);
    line.say(&BOTH);
    line
}

/// The kinds of all replies to one option, and their bytes.
fn replies(line: &mut Line, number: u32, own: &[u8]) -> Vec<(u32, Vec<u8>)> {
    line.say(&option(number, own));
    let heard = line.take_heard();
    let mut ear = Ear(&heard);
    let mut replies = Vec::new();
    while !ear.0.is_empty() {
        assert_eq!(ear.u64(), 0x0003_e889_0455_65a9);
        assert_eq!(ear.u32(), number, "it answers what was asked");
        let (kind, len) = (ear.u32(), ear.u32());
        replies.push((kind, ear.bytes(len as usize).to_vec()));
    }
    replies
}

fn kinds(line: &mut Line, number: u32, own: &[u8]) -> Vec<u32> {
    let replies = replies(line, number, own);
    replies.into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn an_export_name_is_answered_with_and_without_zeroes() {
    for (flags, zeroes) in [(3_u32, 0), (1, 124)] {
        let mut line = Line::new(&exports(), Tls::Absent);
        line.take_heard();
        line.say(&flags.to_be_bytes());
        line.say(&option(1, b"a"));
        let heard = line.take_heard();
        let mut ear = Ear(&heard);
        // Flags, FLUSH, FUA, TRIM, WRITE_ZEROES, MULTI_CONN, CACHE, FAST_ZERO.
        assert_eq!((ear.u64(), ear.u16()), (MIB, 0b1101_0110_1101));
        assert_eq!(ear.0, vec![0; zeroes]);
        line.say(&request(0, 0, 9, 0, 2));
        assert_eq!(
            line.take_heard(),
            b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x09\0\0"
        );
    }
    let mut lost = line(Tls::Absent);
    lost.say(&option(1, b"b"));
    assert_eq!((lost.next, lost.heard.len()), (Next::Close, 0));
}

#[test]
fn go_tells_what_was_asked_for_and_serves() {
    let mut line = line(Tls::Absent);
    assert_eq!(kinds(&mut line, 8, b""), [ACK]);
    let heard = replies(&mut line, 6, &wish("fixed", &[]));
    // Flags, READ_ONLY, FLUSH, FUA, DF, MULTI_CONN, CACHE.
    assert_eq!(heard[0], (3, b"\0\0\0\0\0\0\0\0\x10\0\x05\x8f".to_vec()));
    assert_eq!(heard[1..], [(ACK, Vec::new())]);
    let heard = replies(&mut line, 7, &wish("a", &[1, 2, 3, 99]));
    assert_eq!(heard.len(), 4);
    assert_eq!(heard[1], (3, b"\0\x01a".to_vec()));
    assert_eq!(
        heard[2],
        (3, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0".to_vec())
    );
    line.say(&request(0, 0, 1, 4096, 1));
    assert_eq!(
        line.take_heard(),
        b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x09\0\0\0\0\0\0\x10\0\0"
    );
}

#[test]
fn the_empty_name_means_the_only_disk() {
    let both = exports();
    let mut line = Line::new(&both, Tls::Absent);
    line.take_heard();
    line.say(&BOTH);
    assert_eq!(kinds(&mut line, 6, &wish("", &[])), [UNKNOWN]);
    assert!(both.remove("fixed").is_some());
    let heard = replies(&mut line, 6, &wish("", &[1]));
    assert_eq!(heard[1], (3, b"\0\x01a".to_vec()));
    assert_eq!(kinds(&mut line, 7, &wish("b", &[])), [UNKNOWN]);
}

#[test]
fn what_is_unknown_wrong_or_too_long_is_refused_and_haggling_goes_on() {
    let mut line = line(Tls::Absent);
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
    for own in crooked {
        assert_eq!(kinds(&mut line, 7, own), [INVALID], "{own:?}");
    }
    assert_eq!(kinds(&mut line, 7, &wish("a\0", &[])), [INVALID]);
    assert_eq!(
        kinds(&mut line, 7, &wish(&"a".repeat(4097), &[])),
        [INVALID]
    );
    let names: Vec<Vec<u8>> = replies(&mut line, 3, b"")
        .into_iter()
        .map(|(_, own)| own)
        .collect();
    assert_eq!(names, [&b"\0\0\0\x01a"[..], b"\0\0\0\x05fixed", b""]);
    assert_eq!(kinds(&mut line, 2, b""), [ACK]);
    assert_eq!(line.next, Next::Close);
}

#[test]
fn contexts_are_chosen_for_one_disk() {
    let mut line = line(Tls::Absent);
    assert_eq!(
        kinds(&mut line, 9, &contexts("a", &[])),
        [INVALID],
        "chunks first"
    );
    assert_eq!(kinds(&mut line, 8, b""), [ACK]);
    let listed = |line: &mut Line, queries: &[&str]| kinds(line, 9, &contexts("a", queries));
    assert_eq!(listed(&mut line, &[]), [4, ACK]);
    assert_eq!(listed(&mut line, &["base:"]), [4, ACK]);
    assert_eq!(listed(&mut line, &["qemu:", "base:allocation"]), [4, ACK]);
    assert_eq!(listed(&mut line, &["base:allocatio"]), [ACK]);
    assert_eq!(kinds(&mut line, 9, &contexts("b", &[])), [UNKNOWN]);
    assert_eq!(kinds(&mut line, 10, &contexts("a", &["base:"])), [ACK]);
    assert_eq!(kinds(&mut line, 10, b"\0\0\0\x01a\0\0\0\x01"), [INVALID]);
    let chosen = replies(&mut line, 10, &contexts("a", &["base:allocation"]));
    assert_eq!(chosen[0], (4, b"\0\0\0\x01base:allocation".to_vec()));
    assert_eq!(kinds(&mut line, 7, &wish("fixed", &[])), [3, ACK]);
    line.say(&request(0, 7, 1, 0, 512));
    let heard = line.take_heard();
    assert_eq!(
        &heard[4..8],
        b"\0\x01\x80\x01",
        "another disk's contexts are not this one's"
    );
    assert_eq!(&heard[20..24], b"\0\0\0\x16");
}

#[test]
fn where_there_is_tls_nothing_is_told_without_it() {
    let mut line = line(Tls::Required);
    for number in [3, 6, 7, 8, 9, 10, 99] {
        assert_eq!(kinds(&mut line, number, b""), [TLS_REQD]);
    }
    assert_eq!(kinds(&mut line, 5, b"x"), [INVALID]);
    assert_eq!(kinds(&mut line, 5, b""), [ACK]);
    assert_eq!(line.next, Next::Tls);
    line.begin_tls();
    assert_eq!(kinds(&mut line, 5, b""), [INVALID]);
    assert_eq!(kinds(&mut line, 7, &wish("a", &[])), [3, ACK]);
    let mut old = self::line(Tls::Required);
    old.say(&option(1, b"a"));
    assert_eq!((old.next, old.heard.len()), (Next::Close, 0));
    let mut leaving = self::line(Tls::Required);
    assert_eq!(kinds(&mut leaving, 2, b""), [ACK]);
}

#[test]
fn what_is_not_nbd_ends_it() {
    let mut other = Line::new(&exports(), Tls::Absent);
    other.say(b"GET ");
    assert_eq!(other.next, Next::Garbage);
    let mut magic = line(Tls::Absent);
    magic.say(b"IHAVEOPTIHAVEOPT");
    assert_eq!(
        magic.next,
        Next::Read,
        "option 1,229,471,318 is merely long"
    );
    let mut magic = line(Tls::Absent);
    magic.say(b"ihaveopt\0\0\0\x03\0\0\0\0");
    assert_eq!(magic.next, Next::Garbage);
    let mut long = line(Tls::Absent);
    long.say(b"IHAVEOPT\0\0\0\x01\xff\xff\xff\xff");
    assert_eq!(long.next, Next::Garbage, "an export name cannot be refused");
    let mut requests = line(Tls::Absent);
    assert_eq!(kinds(&mut requests, 7, &wish("a", &[])), [3, ACK]);
    requests.say(&[0; 28]);
    assert_eq!(requests.next, Next::Garbage);
}
