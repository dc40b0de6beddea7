//! Any bytes to an NBD listener, whole and cut: the same options are answered, the same requests are understood.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::nbd::whole_and_in_pieces(seed, input);
});
