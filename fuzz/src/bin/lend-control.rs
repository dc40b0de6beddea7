//! Feeds any bytes to a reader of control lines, whole and cut. Both must give the same messages, and each message must
//! survive a round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::lend::control::whole_and_in_pieces(seed, input);
});
