//! Requests and the replies to them.

use std::sync::Arc;

use super::fake_disk::{AnswerMode, CHUNK_BYTES, FakeDisk};
use super::loopback::{LoopbackClient, contexts, export_query, option, request};
use crate::block_device::{Disk, DiskOperation, DiskShape, ExtentLimit, REQUEST_BYTES_MAX};
use crate::nbd::session::LoopAction;
use crate::nbd::session::negotiation::TlsState;
use crate::nbd::wire::replies::ReplyFormat;
use crate::nbd::wire::requests::NbdCommand;
use crate::nbd::{Exports, HELD_MAX};

const BYTES: u64 = 40 << 20;

const PERM: u32 = 1;
const IO: u32 = 5;
const INVAL: u32 = 22;
const NOSPC: u32 = 28;
const OVERFLOW: u32 = 75;
const NOTSUP: u32 = 95;

const SHAPE: DiskShape = DiskShape {
    bytes: BYTES,
    read_only: false,
    trims: true,
};

/// Where this disk's backing fails.
const BAD: u64 = 30 << 20;

/// A client of a disk that can be written to.
fn client(format: ReplyFormat) -> LoopbackClient {
    client_of(SHAPE, format)
}

fn client_of(shape: DiskShape, format: ReplyFormat) -> LoopbackClient {
    let exports = Exports::default();
    exports
        .add(FakeDisk::shaped("a", shape, AnswerMode::Prompt, Some(BAD)))
        .expect("room");
    let mut line = LoopbackClient::new(&Arc::new(exports), TlsState::Absent);
    line.send(&[0, 0, 0, 3]);
    if format == ReplyFormat::Structured {
        line.send(&option(8, b""));
        line.send(&option(10, &contexts("a", &["base:allocation"])));
    }
    line.send(&option(7, &export_query("a", &[])));
    line.take_replies();
    line
}

/// Sends a request, and returns the errno of its simple reply.
fn errno(line: &mut LoopbackClient, flags: u16, verb: u16, at: u64, len: u32) -> u32 {
    let mut bytes = request(flags, verb, 5, at, len);
    if verb == 1 {
        bytes.resize(bytes.len() + len as usize, 7);
    }
    line.send(&bytes);
    let replies = line.take_replies();
    assert_eq!(&replies[..4], b"\x67\x44\x66\x98");
    assert_eq!(&replies[8..16], b"\0\0\0\0\0\0\0\x05");
    let errno = u32::from_be_bytes(replies[4..8].try_into().expect("four bytes"));
    let read = if verb == 0 && errno == 0 {
        len as usize
    } else {
        0
    };
    assert_eq!(replies.len(), 16 + read);
    errno
}

/// Sends a request, and returns the errno of its error chunk.
fn chunk_errno(line: &mut LoopbackClient, flags: u16, verb: u16, at: u64, len: u32) -> u32 {
    line.send(&request(flags, verb, 5, at, len));
    let replies = line.take_replies();
    assert_eq!(
        &replies[..16],
        b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x05"
    );
    assert_eq!(replies.len(), 26 + usize::from(replies[25]));
    u32::from_be_bytes(replies[20..24].try_into().expect("four bytes"))
}

#[test]
fn every_range_beyond_the_end_is_refused() {
    let mut line = client(ReplyFormat::Simple);
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
    assert_eq!(line.in_flight_and_held().0, 0);
}

#[test]
fn lengths_flags_and_verbs_out_of_bounds_are_refused() {
    let mut line = client(ReplyFormat::Simple);
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
    assert_eq!(
        line.in_flight_and_held(),
        (0, 0),
        "nothing is held any more"
    );
}

#[test]
fn nobody_writes_to_a_read_only_disk() {
    let mut line = client_of(
        DiskShape {
            read_only: true,
            ..SHAPE
        },
        ReplyFormat::Simple,
    );
    for verb in [1, 4, 6] {
        assert_eq!(errno(&mut line, 0, verb, 0, 100_000), PERM);
    }
    assert_eq!(errno(&mut line, 0, 0, 0, 100_000), 0);
    assert_eq!(errno(&mut line, 0, 3, 0, 0), 0);
}

#[test]
fn faults_of_the_backing_are_told() {
    let mut line = client(ReplyFormat::Simple);
    for verb in [0, 1, 6] {
        assert_eq!(errno(&mut line, 0, verb, BAD - 4095, 4096), IO);
        assert_eq!(errno(&mut line, 0, verb, BAD - 4096, 4096), 0);
    }
    let mut chunks = client(ReplyFormat::Structured);
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
    for limit in [ExtentLimit::One, ExtentLimit::Many] {
        let verb = NbdCommand::Extents { limit }.disk_operation();
        assert_eq!(verb, Some(DiskOperation::Extents { limit }));
    }
}

#[test]
fn extents_are_runs_within_the_range() {
    let mut line = client(ReplyFormat::Structured);
    let chunk = CHUNK_BYTES as u32;
    assert_eq!(errno(&mut line, 0, 1, CHUNK_BYTES, 2 * chunk), 0);
    let status = |line: &mut LoopbackClient, flags, at, len| {
        line.send(&request(flags, 7, 5, at, len));
        let replies = line.take_replies();
        assert_eq!(&replies[..8], b"\x66\x8e\x33\xef\0\x01\0\x05");
        assert_eq!(&replies[20..24], b"\0\0\0\x01");
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        let runs = replies[24..]
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
    let mut line = client(ReplyFormat::Simple);
    line.others_hold(HELD_MAX - 4095);
    line.send(&request(0, 0, 5, 0, 4096));
    assert_eq!(
        (line.next, line.replies.len()),
        (LoopAction::AwaitMemory, 0)
    );
    line.others_hold(HELD_MAX - 4096);
    line.send(b"");
    assert_eq!(
        (line.next, line.take_replies().len()),
        (LoopAction::Read, 16 + 4096)
    );
    line.others_hold(0);
    assert_eq!(errno(&mut line, 0, 0, 0, REQUEST_BYTES_MAX / 2), 0);
}

/// A backing that hangs holds only what its own clients asked for.
#[test]
fn a_disk_that_does_not_answer_leaves_room_for_others() {
    let mut line = client(ReplyFormat::Simple);
    let shape = line.disk("a").shape();
    let other: Arc<dyn Disk> = FakeDisk::shaped("b", shape, AnswerMode::Prompt, None);
    line.others_ask(&other, HELD_MAX / 2);
    assert_eq!(errno(&mut line, 0, 0, 0, REQUEST_BYTES_MAX / 2), 0);
    line.others_ask(&line.disk("a"), HELD_MAX / 4);
    line.send(&request(0, 0, 5, 0, 4096));
    assert_eq!(
        (line.next, line.replies.len()),
        (LoopAction::AwaitMemory, 0)
    );
}

/// Clients whose large payloads stall do not keep other clients of the same disk from small requests.
#[test]
fn large_requests_leave_room_for_small_ones() {
    let large = REQUEST_BYTES_MAX / 2;
    let most_of_it = HELD_MAX / 4 - large as usize;
    let mut line = client(ReplyFormat::Simple);
    line.others_ask(&line.disk("a"), most_of_it);
    assert_eq!(errno(&mut line, 0, 0, 0, 256 << 10), 0);
    line.send(&request(0, 0, 5, 0, large));
    assert_eq!(
        (line.next, line.replies.len()),
        (LoopAction::AwaitMemory, 0)
    );
}

#[test]
fn a_disconnect_is_the_last_thing_heard() {
    let mut line = client(ReplyFormat::Simple);
    line.send(&[request(0, 2, 1, 0, 0), request(0, 0, 2, 0, 1)].concat());
    assert_eq!((line.next, line.replies.len()), (LoopAction::Close, 0));
}

#[test]
fn a_read_of_nothing_has_no_chunk_of_bytes() {
    let mut line = client(ReplyFormat::Structured);
    line.send(&request(0, 0, 5, 0, 0));
    assert_eq!(
        line.take_replies(),
        b"\x66\x8e\x33\xef\0\x01\0\0\0\0\0\0\0\0\0\x05\0\0\0\0"
    );
}
