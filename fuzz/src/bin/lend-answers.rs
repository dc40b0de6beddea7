//! Feeds any bytes as answers over a data connection. However they are cut, the borrower gets the same ones, of pages that it asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::lend::wire::answers(seed, input);
});
