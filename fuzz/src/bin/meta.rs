//! Meta commands: verbs, keys and blocks are well formed, so that what is tried is the flags.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sublet_fuzz::{seed_of, settings, whole_and_in_pieces};

const VERBS: [&str; 7] = ["mg", "ms", "md", "ma", "mn", "me", "get"];
const KEYS: [&str; 4] = ["k", "Zm9v", "n", "key:with:colons"];
const BLOCKS: [&str; 4] = ["", "7", "value", "18446744073709551615"];

/// Each line of the input: a byte each for verb, key and block, then flags as they stand.
fn commands(input: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    for line in input.split(|&byte| byte == b'\n') {
        let [verb, key, block, flags @ ..] = line else {
            continue;
        };
        let verb = VERBS[usize::from(*verb) % VERBS.len()];
        let block = BLOCKS[usize::from(*block) % BLOCKS.len()];
        said.extend_from_slice(verb.as_bytes());
        if verb != "mn" {
            said.push(b' ');
            said.extend_from_slice(KEYS[usize::from(*key) % KEYS.len()].as_bytes());
        }
        if verb == "ms" {
            said.extend_from_slice(format!(" {}", block.len()).as_bytes());
        }
        said.push(b' ');
        said.extend_from_slice(flags);
        said.extend_from_slice(b"\r\n");
        if verb == "ms" {
            said.extend_from_slice(format!("{block}\r\n").as_bytes());
        }
    }
    said
}

fuzz_target!(|input: &[u8]| {
    let (seed, lines) = seed_of(input);
    whole_and_in_pieces(&settings(), seed, &commands(lines));
});
