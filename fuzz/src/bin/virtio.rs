//! Any bytes as a guest's descriptors and headers: the walk ends, and nothing beyond the disk is asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| sublet_fuzz::virtio::wander(input));
