//! Feeds any bytes as a save file. It is restored whole, or refused with nothing left of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| sublet_fuzz::saves::restore(input));
