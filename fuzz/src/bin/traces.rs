//! Feeds any bytes as a trace or a scenario. It is read to the end, or refused with place and reason. Nothing follows
//! that.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| sublet_fuzz::traces::read(input));
