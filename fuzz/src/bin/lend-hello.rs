//! Feeds any bytes as a hello of a data connection. It is understood the same however it is cut, and let in once.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::lend::wire::hello(seed, input);
});
