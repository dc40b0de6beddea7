//! Feeds meta commands. Verbs, keys and blocks are well formed, so that the flags are what is tested.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sublet_fuzz::{seed_of, settings, whole_and_in_pieces};

const VERBS: [&str; 7] = ["mg", "ms", "md", "ma", "mn", "me", "get"];
const KEYS: [&str; 4] = ["k", "Zm9v", "n", "key:with:colons"];
const BLOCKS: [&str; 4] = ["", "7", "value", "18446744073709551615"];

/// Reads each line of the input: one byte each for verb, key and block, then the flags as they stand.
fn commands(input: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in input.split(|&byte| byte == b'\n') {
        let [verb, key, block, flags @ ..] = line else {
            continue;
        };
        let verb = VERBS[usize::from(*verb) % VERBS.len()];
        let block = BLOCKS[usize::from(*block) % BLOCKS.len()];
        bytes.extend_from_slice(verb.as_bytes());
        if verb != "mn" {
            bytes.push(b' ');
            bytes.extend_from_slice(KEYS[usize::from(*key) % KEYS.len()].as_bytes());
        }
        if verb == "ms" {
            bytes.extend_from_slice(format!(" {}", block.len()).as_bytes());
        }
        bytes.push(b' ');
        bytes.extend_from_slice(flags);
        bytes.extend_from_slice(b"\r\n");
        if verb == "ms" {
            bytes.extend_from_slice(format!("{block}\r\n").as_bytes());
        }
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let (seed, lines) = seed_of(input);
    whole_and_in_pieces(&settings(), seed, &commands(lines));
});
