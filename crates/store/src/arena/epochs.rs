//! Pins: how a reader keeps every block in place while it copies, at the price of one store.
//!
//! Each worker owns a slot. Pinning writes the current epoch into it. A thread that retires a block first makes it
//! unreachable, then advances the epoch. It may reuse the block once every slot is free or holds the new epoch. Either
//! the retirer sees the pin, or the reader sees that the block is gone. Fences on both sides rule out the third case.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::api::{TooManyWorkers, WORKERS_MAX};

const FREE: u64 = u64::MAX;

/// A point in the arena's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(pub(super) u64);

/// The epoch, and the slots of all workers.
pub(crate) struct Epochs {
    now: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<AtomicU64>]>,
    vacant: Mutex<Vec<usize>>,
}

/// A worker's slot among the pins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PinSlot(usize);

impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs::with_slots(WORKERS_MAX)
    }

    fn with_slots(count: usize) -> Epochs {
        Epochs {
            now: CachePadded::new(AtomicU64::new(1)),
            slots: (0..count)
                .map(|_| CachePadded::new(AtomicU64::new(FREE)))
                .collect(),
            vacant: Mutex::new((0..count).rev().collect()),
        }
    }

    pub(crate) fn enroll(&self) -> Result<PinSlot, TooManyWorkers> {
        self.vacant.lock().pop().map(PinSlot).ok_or(TooManyWorkers)
    }

    pub(crate) fn dismiss(&self, slot: &PinSlot) {
        self.unpin(slot);
        self.vacant.lock().push(slot.0);
    }

    pub(crate) fn pin(&self, slot: &PinSlot) {
        let now = self.now.load(Ordering::Relaxed);
        self.slots[slot.0].store(now, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn unpin(&self, slot: &PinSlot) {
        self.slots[slot.0].store(FREE, Ordering::Release);
    }

    /// Advances the epoch. What was made unreachable before this call is safe at the returned epoch.
    pub(crate) fn advance(&self) -> Epoch {
        fence(Ordering::SeqCst);
        Epoch(self.now.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The oldest epoch that a pin may still hold.
    pub(crate) fn oldest(&self) -> Epoch {
        fence(Ordering::SeqCst);
        let pinned = self
            .slots
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .min();
        Epoch(pinned.unwrap_or(FREE))
    }

    /// Like `oldest`, without the slot of `pin`.
    pub(crate) fn oldest_but(&self, pin: &PinSlot) -> Epoch {
        fence(Ordering::SeqCst);
        let others = self.slots.iter().enumerate().filter(|(at, _)| *at != pin.0);
        Epoch(
            others
                .map(|(_, slot)| slot.load(Ordering::Acquire))
                .min()
                .unwrap_or(FREE),
        )
    }
}

/// Every order in which a reader and a thread that drops a block can meet. Run with `RUSTFLAGS="--cfg loom" cargo test
/// -p sublet-store --lib --release epochs::orders`.
#[cfg(all(test, loom))]
mod orders {
    use loom::sync::Arc;

    use super::*;

    const WRITTEN: u64 = 1;
    const REUSED: u64 = 2;

    #[test]
    fn a_pinned_reader_never_sees_a_block_reused() {
        loom::model(|| {
            let epochs = Arc::new(Epochs::with_slots(2));
            let generation = Arc::new(AtomicU64::new(0));
            let content = Arc::new(AtomicU64::new(WRITTEN));
            let slot = epochs.enroll().expect("a slot");
            let reader = {
                let (epochs, generation, content) =
                    (epochs.clone(), generation.clone(), content.clone());
                loom::thread::spawn(move || {
                    epochs.pin(&slot);
                    if generation.load(Ordering::Acquire) == 0 {
                        assert_eq!(
                            content.load(Ordering::Relaxed),
                            WRITTEN,
                            "reused under a pin"
                        );
                    }
                    epochs.unpin(&slot);
                })
            };
            generation.fetch_add(1, Ordering::AcqRel);
            let dropped = epochs.advance();
            if epochs.oldest() >= dropped {
                content.store(REUSED, Ordering::Relaxed);
            }
            reader.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_back_exactly_what_was_retired_after_it() {
        let epochs = Epochs::new();
        let reader = epochs.enroll().expect("a slot");
        let before = epochs.advance();
        epochs.pin(&reader);
        let after = epochs.advance();
        assert!(epochs.oldest() >= before);
        assert!(epochs.oldest() < after);
        epochs.unpin(&reader);
        assert!(epochs.oldest() >= after);
    }

    #[test]
    fn slots_are_bounded_and_come_back() {
        let epochs = Epochs::new();
        let slots: Vec<PinSlot> = (0..WORKERS_MAX)
            .map(|_| epochs.enroll().expect("a slot"))
            .collect();
        assert_eq!(epochs.enroll(), Err(TooManyWorkers));
        epochs.dismiss(&slots[5]);
        assert_eq!(epochs.enroll(), Ok(PinSlot(5)));
    }
}
