//! Feeds any bytes to an NBD listener, whole and cut. Both must give the same answers to options and understand the
//! same requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::nbd::whole_and_in_pieces(seed, input);
});
