//! Feeds any bytes as requests over a data connection. However they are cut, the lender gets the same ones, all within their bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::lend::wire::requests(seed, input);
});
