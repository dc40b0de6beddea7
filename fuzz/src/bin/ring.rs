//! Feeds any bytes at any place of a page ring. The daemon's end stays consistent, and answers no more than was asked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| sublet_fuzz::ring::run(input));
