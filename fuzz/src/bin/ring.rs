//! Any bytes, anywhere in a page ring: its daemon's end stays whole, and answers no more than was asked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| sublet_fuzz::ring::scribble(input));
