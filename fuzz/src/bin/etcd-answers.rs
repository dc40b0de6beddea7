//! Feeds any bytes to the parsers of etcd's answers, and to a member that believes them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (seed, input) = sublet_fuzz::seed_of(input);
    sublet_fuzz::etcd::answers(seed, input);
});
