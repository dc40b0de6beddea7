//! Requests, and what is said to them.

use std::sync::Arc;

use super::fake_disk::{CHUNK_BYTES, FakeDisk, Mood};
use super::line::{Line, contexts, option, request, wish};
use crate::block::{Disk, REQUEST_BYTES_MAX, Shape, Verb};
use crate::nbd::session::Next;
use crate::nbd::session::negotiate::Tls;
use crate::nbd::wire::requests::Ask;
use crate::nbd::{Exports, HELD_MAX};

const BYTES: u64 = 40 << 20;

const PERM: u32 = 1;
const IO: u32 = 5;
const INVAL: u32 = 22;
const NOSPC: u32 = 28;
const OVERFLOW: u32 = 75;
const NOTSUP: u32 = 95;

/// Where this disk's backing fails.
const BAD: u64 = 30 << 20;

fn line(read_only: bool, structured: bool) -> Line {
    let exports = Exports::default();
    let shape = Shape {
        bytes: BYTES,
        read_only,
        trims: true,
    };
    exports
        .add(FakeDisk::shaped("a", shape, Mood::Prompt, Some(BAD)))
        .expect("room");
    let mut line = Line::new(&Arc::new(exports), Tls::Absent);
    line.say(&[0, 0, 0, 3]);
    if structured {
        line.say(&option(8, b""));
        line.say(&option(10, &contexts("a", &["base:allocation"])));
    }
    line.say(&option(7, &wish("a", &[])));
    line.take_heard();
    line
}

/// Says a request; the number of its error, which has to be a simple reply's.
fn errno(line: &mut Line, flags: u16, verb: u16, at: u64, len: u32) -> u32 {
    let mut bytes = request(flags, verb, 5, at, len);
    if verb == 1 {
        bytes.resize(bytes.len() + len as usize, 7);
    }
    line.say(&bytes);
    let heard = line.take_heard();
    assert_eq!(&heard[..4], b"\x67\x44\x66\x98");
    assert_eq!(&heard[8..16], b"\0\0\0\0\0\0\0\x05");
    let errno = u32::from_be_bytes(heard[4..8].try_into().expect("four bytes"));
    let read = if verb == 0 && errno == 0 {
        len as usize
    } else {
        0
    };
    assert_eq!(heard.len(), 16 + read);
    errno
}

/// The same for a chunk with an error.
fn chunk_errno(line: &mut Line, flags: u16, verb: u16, at: u64, len: u32) -> u32 {
    line.say(&request(flags, verb, 5, at, len));
    let heard = line.take_heard();
    assert_eq!(
        &heard[..16],
        b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x05"
    );
    assert_eq!(heard.len(), 26 + usize::from(heard[25]));
    u32::from_be_bytes(heard[20..24].try_into().expect("four bytes"))
}

#[test]
fn every_range_beyond_the_end_is_refused() {
    let mut line = line(false, false);
    for (at, len) in [
        (BYTES, 1),
        (BYTES - 1, 2),
        (u64::MAX, 1),
        (u64::MAX - 1, 4096),
    ] {
        assert_eq!(errno(&mut line, 0, 0, at, len), INVAL, "read");
        assert_eq!(errno(&mut line, 0, 1, at, len), NOSPC, "write");
        assert_eq!(errno(&mut line, 0, 4, at, len), INVAL, "trim");
        assert_eq!(errno(&mut line, 0, 5, at, len), INVAL, "prefetch");
        assert_eq!(errno(&mut line, 0, 6, at, len), NOSPC, "zeroes");
    }
    for verb in [0, 1, 4, 5, 6] {
        assert_eq!(
            errno(&mut line, 1, verb, BYTES - 1, 1),
            0,
            "the last byte is there"
        );
        assert_eq!(
            errno(&mut line, 0, verb, BYTES, 0),
            0,
            "nothing is everywhere"
        );
    }
    assert_eq!(line.left().0, 0);
}

#[test]
fn lengths_flags_and_verbs_out_of_bounds_are_refused() {
    let mut line = line(false, false);
    let most = REQUEST_BYTES_MAX;
    assert_eq!(errno(&mut line, 0, 0, 0, most / 2), 0);
    assert_eq!(errno(&mut line, 0, 0, 0, most + 1), INVAL);
    assert_eq!(errno(&mut line, 0, 1, 0, most + 1), INVAL);
    assert_eq!(
        errno(&mut line, 2, 6, 0, most + 1),
        IO,
        "zeroes may be many, but hit the bad byte"
    );
    assert_eq!(errno(&mut line, 4, 0, 0, 1), INVAL, "DF without chunks");
    assert_eq!(errno(&mut line, 1 << 15, 1, 0, 1), INVAL);
    assert_eq!(errno(&mut line, 0, 3, 1, 0), INVAL);
    assert_eq!(errno(&mut line, 1, 3, 0, 0), 0);
    assert_eq!(
        errno(&mut line, 0, 7, 0, 1),
        INVAL,
        "nothing was settled about extents"
    );
    assert_eq!(errno(&mut line, 0, 8, 0, 1), INVAL);
    assert_eq!(errno(&mut line, 0, u16::MAX, 0, 1), INVAL);
    assert_eq!(errno(&mut line, 16, 6, 0, 1), NOTSUP, "not fast");
    assert_eq!(errno(&mut line, 16, 6, 0, CHUNK_BYTES as u32), 0);
    assert_eq!(line.left(), (0, 0), "nothing is held any more");
}

#[test]
fn nobody_writes_to_a_read_only_disk() {
    let mut line = line(true, false);
    for verb in [1, 4, 6] {
        assert_eq!(errno(&mut line, 0, verb, 0, 100_000), PERM);
    }
    assert_eq!(errno(&mut line, 0, 0, 0, 100_000), 0);
    assert_eq!(errno(&mut line, 0, 3, 0, 0), 0);
}

#[test]
fn faults_of_the_backing_are_told() {
    let mut line = line(false, false);
    for verb in [0, 1, 6] {
        assert_eq!(errno(&mut line, 0, verb, BAD - 4095, 4096), IO);
        assert_eq!(errno(&mut line, 0, verb, BAD - 4096, 4096), 0);
    }
    let mut chunks = self::line(false, true);
    assert_eq!(chunk_errno(&mut chunks, 0, 0, BAD, 1), IO);
    assert_eq!(chunk_errno(&mut chunks, 0, 7, BAD, 1), IO);
    assert_eq!(chunk_errno(&mut chunks, 0, 0, BYTES, 1), INVAL);
    assert_eq!(chunk_errno(&mut chunks, 0, 7, BYTES, 1), INVAL);
    assert_eq!(chunk_errno(&mut chunks, 0, 7, 0, 0), INVAL);
    assert_eq!(chunk_errno(&mut chunks, 4, 0, 0, u32::MAX), OVERFLOW);
    assert_eq!(chunk_errno(&mut chunks, 0, 0, 0, u32::MAX), INVAL);
    assert_eq!(errno(&mut chunks, 0, 1, BAD, 1), IO);
}

#[test]
fn a_disk_looks_for_one_extent_where_only_one_is_wanted() {
    for one in [true, false] {
        let verb = Ask::Extents { one }.verb();
        assert_eq!(verb, Some(Verb::Extents { one }));
    }
}

#[test]
fn extents_are_runs_within_the_range() {
    let mut line = line(false, true);
    let chunk = CHUNK_BYTES as u32;
    assert_eq!(errno(&mut line, 0, 1, CHUNK_BYTES, 2 * chunk), 0);
    let status = |line: &mut Line, flags, at, len| {
        line.say(&request(flags, 7, 5, at, len));
        let heard = line.take_heard();
        assert_eq!(&heard[..8], b"\x66\x8e\x33\xef\0\x01\0\x05");
        assert_eq!(&heard[20..24], b"\0\0\0\x01");
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        let runs = heard[24..]
            .chunks_exact(8)
            .map(|run| (word(&run[..4]), word(&run[4..])));
        runs.collect::<Vec<_>>()
    };
    assert_eq!(
        status(&mut line, 0, 1, 4 * chunk),
        [(chunk - 1, 3), (2 * chunk, 0), (chunk + 1, 3)]
    );
    assert_eq!(status(&mut line, 8, 1, 4 * chunk), [(chunk - 1, 3)]);
    assert_eq!(status(&mut line, 8, CHUNK_BYTES, 5), [(5, 0)]);
    assert_eq!(
        status(&mut line, 0, 0, BAD as u32),
        [(chunk, 3), (2 * chunk, 0), (BAD as u32 - 3 * chunk, 3)]
    );
}

#[test]
fn who_wants_more_memory_than_there_is_waits() {
    let mut line = line(false, false);
    line.others_hold(HELD_MAX - 4095);
    line.say(&request(0, 0, 5, 0, 4096));
    assert_eq!((line.next, line.heard.len()), (Next::Park, 0));
    line.others_hold(HELD_MAX - 4096);
    line.say(b"");
    assert_eq!(
        (line.next, line.take_heard().len()),
        (Next::Read, 16 + 4096)
    );
    line.others_hold(0);
    assert_eq!(errno(&mut line, 0, 0, 0, REQUEST_BYTES_MAX / 2), 0);
}

/// A backing that hangs holds what its own clients asked for, and no more.
#[test]
fn a_disk_that_does_not_answer_leaves_room_for_others() {
    let mut line = line(false, false);
    let shape = line.disk("a").shape();
    let other: Arc<dyn Disk> = FakeDisk::shaped("b", shape, Mood::Prompt, None);
    line.others_ask(&other, HELD_MAX / 2);
    assert_eq!(errno(&mut line, 0, 0, 0, REQUEST_BYTES_MAX / 2), 0);
    line.others_ask(&line.disk("a"), HELD_MAX / 4);
    line.say(&request(0, 0, 5, 0, 4096));
    assert_eq!((line.next, line.heard.len()), (Next::Park, 0));
}

/// Clients whose large payloads stall keep no other of the same disk from small requests.
#[test]
fn large_requests_leave_room_for_small_ones() {
    let large = REQUEST_BYTES_MAX / 2;
    let most_of_it = HELD_MAX / 4 - large as usize;
    let mut line = line(false, false);
    line.others_ask(&line.disk("a"), most_of_it);
    assert_eq!(errno(&mut line, 0, 0, 0, 256 << 10), 0);
    line.say(&request(0, 0, 5, 0, large));
    assert_eq!((line.next, line.heard.len()), (Next::Park, 0));
}

#[test]
fn a_disconnect_is_the_last_thing_heard() {
    let mut line = line(false, false);
    line.say(&[request(0, 2, 1, 0, 0), request(0, 0, 2, 0, 1)].concat());
    assert_eq!((line.next, line.heard.len()), (Next::Close, 0));
}

#[test]
fn a_read_of_nothing_has_no_chunk_of_bytes() {
    let mut line = line(false, true);
    line.say(&request(0, 0, 5, 0, 0));
    assert_eq!(
        line.take_heard(),
        b"\x66\x8e\x33\xef\0\x01\0\0\0\0\0\0\0\0\0\x05\0\0\0\0"
    );
}
