//! However a client's bytes are cut, the answers are the same, and those of a disk that is a plain `Vec`.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::fake_disk::{FakeDisk, Mood};
use super::line::{Ear, Line, option, request, wish};
use crate::nbd::Exports;
use crate::nbd::session::Next;
use crate::nbd::session::negotiate::Tls;

/// Three chunks of the fake disk and a bit.
const BYTES: u64 = 200_192;

/// A request, some of them beyond the end.
#[derive(Clone, Copy, Debug)]
struct Asked {
    verb: u16,
    flags: u16,
    at: u64,
    len: u32,
    byte: u8,
}

fn asked() -> impl Strategy<Value = Asked> {
    let verb = prop_oneof![4 => Just(0_u16), 4 => Just(1), 1 => 3..9_u16];
    let flags = prop_oneof![8 => Just(0_u16), 1 => Just(1), 1 => 0..64_u16];
    let at = 0..BYTES + 100;
    let len = prop_oneof![8 => 0..5000_u32, 1 => 10_000..70_000_u32];
    (verb, flags, at, len, any::<u8>()).prop_map(|(verb, flags, at, len, byte)| {
        let (at, len) = if verb == 3 { (0, 0) } else { (at, len) };
        Asked {
            verb,
            flags,
            at,
            len,
            byte,
        }
    })
}

/// What a plain disk says: an error, or the bytes that were read.
fn answer(disk: &mut [u8], asked: Asked) -> Result<Vec<u8>, u32> {
    let Asked {
        verb,
        flags,
        at,
        len,
        byte,
    } = asked;
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

fn bytes_of(cookie: u64, asked: Asked) -> Vec<u8> {
    let mut bytes = request(asked.flags, asked.verb, cookie, asked.at, asked.len);
    if asked.verb == 1 {
        bytes.resize(bytes.len() + asked.len as usize, asked.byte);
    }
    bytes
}

/// Replies by cookie.
fn heard(line: &mut Line, all: &[Asked]) -> BTreeMap<u64, Result<Vec<u8>, u32>> {
    let heard = line.take_heard();
    let mut ear = Ear(&heard);
    let mut replies = BTreeMap::new();
    while !ear.0.is_empty() {
        assert_eq!(ear.u32(), 0x6744_6698);
        let (errno, cookie) = (ear.u32(), ear.u64());
        let asked = all[cookie as usize];
        let read = if asked.verb == 0 && errno == 0 {
            asked.len
        } else {
            0
        };
        let bytes = ear.bytes(read as usize).to_vec();
        let reply = if errno == 0 { Ok(bytes) } else { Err(errno) };
        assert!(
            replies.insert(cookie, reply).is_none(),
            "one reply a request"
        );
    }
    replies
}

fn line() -> Line {
    let exports = Exports::default();
    exports
        .add(FakeDisk::new("a", BYTES, Mood::Prompt))
        .expect("room");
    Line::new(&Arc::new(exports), Tls::Absent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_changes_nothing(
        all in prop::collection::vec(asked(), 1..60),
        cuts in prop::collection::vec(1..9000_usize, 1..40),
    ) {
        let mut plain = vec![0; BYTES as usize];
        let expected: BTreeMap<u64, _> =
            (0..).zip(all.iter().map(|asked| answer(&mut plain, *asked))).collect();
        let greeting = [vec![0, 0, 0, 3], option(7, &wish("a", &[3]))].concat();
        let requests: Vec<u8> = (0..).zip(&all).flat_map(|(n, asked)| bytes_of(n, *asked)).collect();
        let said = [&greeting[..], &requests, &request(0, 2, 0, 0, 0)].concat();
        let front = 18 + 20 + 12 + 20 + 14 + 20;
        for cuts in [vec![said.len()], cuts, vec![1]] {
            let mut line = line();
            let mut rest = &said[..];
            for cut in cuts.iter().cycle() {
                let (piece, later) = rest.split_at((*cut).min(rest.len()));
                line.say(piece);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(line.next, Next::Close);
            prop_assert_eq!(line.left(), (0, 0));
            line.heard.drain(..front);
            prop_assert_eq!(heard(&mut line, &all), expected.clone());
        }
    }
}
