//! Feeds bytes that a client of the binary protocol may send: raw, or in frames with consistent lengths.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sublet_frontends::memcached::settings::{Protocol, Settings};
use sublet_fuzz::{seed_of, settings, whole_and_in_pieces};

const KEYS: [&str; 4] = ["", "k", "n", "a-longer-key"];

/// Bytes of a record that becomes a frame.
const RECORD: usize = 8;

/// Turns each record of the input into a frame: opcode, extras, key, value, cas, and one length that may be wrong.
fn frames(input: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in input.chunks_exact(RECORD) {
        let [opcode, extras, key, value, cas, expiry, off, filling] = record else {
            continue;
        };
        let key = KEYS[usize::from(*key) % KEYS.len()].as_bytes();
        let extras = extras % 25;
        let body = usize::from(extras) + key.len() + usize::from(*value);
        let body = if off % 16 == 15 {
            body.wrapping_sub(1)
        } else {
            body
        };
        bytes.extend_from_slice(&[0x80, opcode % 0x26, 0, key.len() as u8, extras, 0, 0, 0]);
        bytes.extend_from_slice(&(body as u32).to_be_bytes());
        bytes.extend_from_slice(&[*off, 1, 2, 3]);
        bytes.extend_from_slice(&u64::from(*cas).to_be_bytes());
        bytes.extend((0..extras).map(|n| if n % 4 == 3 { *expiry } else { 0 }));
        bytes.extend_from_slice(key);
        bytes.extend(std::iter::repeat_n(
            b'0' + filling % 10,
            usize::from(*value),
        ));
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let settings = Settings {
        protocol: Protocol::Binary,
        ..settings()
    };
    let (seed, bytes) = seed_of(input);
    match bytes.split_first() {
        Some((0, raw)) => whole_and_in_pieces(&settings, seed, raw),
        Some((_, records)) => whole_and_in_pieces(&settings, seed, &frames(records)),
        None => {}
    }
});
