//! Feeds bytes that a client of the text protocol may send.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sublet_frontends::memcached::settings::{Protocol, Settings};
use sublet_fuzz::{seed_of, settings, whole_and_in_pieces};

fuzz_target!(|input: &[u8]| {
    let settings = Settings {
        protocol: Protocol::Ascii,
        ..settings()
    };
    let (seed, bytes) = seed_of(input);
    whole_and_in_pieces(&settings, seed, bytes);
});
