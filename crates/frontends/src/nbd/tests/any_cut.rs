//! However a client's bytes are cut, the answers are the same, and equal those of a disk that is a plain `Vec`.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::fake_disk::{AnswerMode, FakeDisk};
use super::loopback::{LoopbackClient, ReplyReader, export_query, option, request};
use crate::nbd::Exports;
use crate::nbd::session::LoopAction;
use crate::nbd::session::negotiation::TlsState;

/// Three chunks of the fake disk and a little more.
const BYTES: u64 = 200_192;

/// A random request. Some reach beyond the end.
#[derive(Clone, Copy, Debug)]
struct RandomRequest {
    verb: u16,
    flags: u16,
    at: u64,
    len: u32,
    byte: u8,
}

fn any_request() -> impl Strategy<Value = RandomRequest> {
    let verb = prop_oneof![4 => Just(0_u16), 4 => Just(1), 1 => 3..9_u16];
    let flags = prop_oneof![8 => Just(0_u16), 1 => Just(1), 1 => 0..64_u16];
    let at = 0..BYTES + 100;
    let len = prop_oneof![8 => 0..5000_u32, 1 => 10_000..70_000_u32];
    (verb, flags, at, len, any::<u8>()).prop_map(|(verb, flags, at, len, byte)| {
        let (at, len) = if verb == 3 { (0, 0) } else { (at, len) };
        RandomRequest {
            verb,
            flags,
            at,
            len,
            byte,
        }
    })
}

/// The answer of a plain disk: an error, or the bytes that were read.
fn answer(disk: &mut [u8], request: RandomRequest) -> Result<Vec<u8>, u32> {
    let RandomRequest {
        verb,
        flags,
        at,
        len,
        byte,
    } = request;
    let allowed = if verb == 6 { 1 | 2 | 16 } else { 1 };
    let is_beyond = at + u64::from(len) > BYTES;
    match verb {
        7.. => return Err(22),
        _ if flags & !allowed != 0 => return Err(22),
        1 | 6 if is_beyond => return Err(28),
        _ if is_beyond => return Err(22),
        6 if flags & 16 != 0 && len % 65_536 != 0 => return Err(95),
        _ => {}
    }
    let range = &mut disk[at as usize..at as usize + len as usize];
    match verb {
        0 => return Ok(range.to_vec()),
        1 => range.fill(byte),
        4 | 6 => range.fill(0),
        _ => {}
    }
    Ok(Vec::new())
}

fn bytes_of(cookie: u64, random: RandomRequest) -> Vec<u8> {
    let mut bytes = request(random.flags, random.verb, cookie, random.at, random.len);
    if random.verb == 1 {
        bytes.resize(bytes.len() + random.len as usize, random.byte);
    }
    bytes
}

/// Replies by cookie.
fn replies_of(
    line: &mut LoopbackClient,
    all: &[RandomRequest],
) -> BTreeMap<u64, Result<Vec<u8>, u32>> {
    let replies = line.take_replies();
    let mut reader = ReplyReader(&replies);
    let mut replies = BTreeMap::new();
    while !reader.0.is_empty() {
        assert_eq!(reader.u32(), 0x6744_6698);
        let (errno, cookie) = (reader.u32(), reader.u64());
        let request = all[cookie as usize];
        let read = if request.verb == 0 && errno == 0 {
            request.len
        } else {
            0
        };
        let bytes = reader.bytes(read as usize).to_vec();
        let reply = if errno == 0 { Ok(bytes) } else { Err(errno) };
        assert!(
            replies.insert(cookie, reply).is_none(),
            "one reply a request"
        );
    }
    replies
}

fn line() -> LoopbackClient {
    let exports = Exports::default();
    exports
        .add(FakeDisk::new("a", BYTES, AnswerMode::Prompt))
        .expect("room");
    LoopbackClient::new(&Arc::new(exports), TlsState::Absent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_changes_nothing(
        all in prop::collection::vec(any_request(), 1..60),
        cuts in prop::collection::vec(1..9000_usize, 1..40),
    ) {
        let mut plain = vec![0; BYTES as usize];
        let expected: BTreeMap<u64, _> =
            (0..).zip(all.iter().map(|request| answer(&mut plain, *request))).collect();
        let greeting = [vec![0, 0, 0, 3], option(7, &export_query("a", &[3]))].concat();
        let requests: Vec<u8> = (0..).zip(&all).flat_map(|(n, request)| bytes_of(n, *request)).collect();
        let input = [&greeting[..], &requests, &request(0, 2, 0, 0, 0)].concat();
        let greeting_len = 18 + 20 + 12 + 20 + 14 + 20;
        for cuts in [vec![input.len()], cuts, vec![1]] {
            let mut line = line();
            let mut rest = &input[..];
            for cut in cuts.iter().cycle() {
                let (piece, later) = rest.split_at((*cut).min(rest.len()));
                line.send(piece);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(line.next, LoopAction::Close);
            prop_assert_eq!(line.in_flight_and_held(), (0, 0));
            line.replies.drain(..greeting_len);
            prop_assert_eq!(replies_of(&mut line, &all), expected.clone());
        }
    }
}
