//! Sealing and opening allocate nothing. A put that sends a page away works under memory pressure.
//!
//! The whole process is counted, so nothing else runs.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use sublet_lend::seal::{Cipher, LeaseKey, PageNonce, WriteSequence};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    for cipher in Cipher::ALL {
        let key = LeaseKey::new(cipher, &[7; 32]);
        let (page, mut sealed, mut opened) = ([1; 4096], [0; 4096], [0; 4096]);
        let before = ALLOCATOR.stats();
        let mut sequence = WriteSequence::UNWRITTEN;
        for _ in 0..1000 {
            sequence = sequence.next().expect("a thousand writes are few");
            let nonce = PageNonce {
                index: 3,
                place: 4,
                sequence,
            };
            let tag = key.seal(nonce, &page, &mut sealed);
            let outcome = key.open_into(nonce, tag, &sealed, &mut opened);
            assert!(outcome.is_ok() && opened == page);
            sealed[0] ^= 1;
            let outcome = key.open(nonce, tag, &mut sealed);
            assert!(outcome.is_err());
        }
        let made = ALLOCATOR.stats() - before;
        assert_eq!(made.allocations + made.reallocations, 0, "{cipher}");
    }
}
