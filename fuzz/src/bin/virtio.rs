//! Feeds any bytes as a guest's descriptors and headers. The walk ends, and asks for nothing beyond the disk.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| sublet_fuzz::virtio::run(input));
