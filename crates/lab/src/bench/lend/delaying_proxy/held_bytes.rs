//! Bytes that wait until they are due.

use std::collections::VecDeque;
use std::time::Instant;

/// The most bytes that wait on one way. More are left in the socket. At 400 MB/s as many come in 40 ms.
const HELD_MAX: usize = 16 << 20;

/// Bytes that came together.
struct HeldChunk {
    bytes: Vec<u8>,
    sent: usize,
    due: Instant,
}

/// Bytes of one way, in the order in which they came.
#[derive(Default)]
pub(super) struct HeldBytes {
    chunks: VecDeque<HeldChunk>,
    held: usize,
}

impl HeldBytes {
    /// Returns whether more may be held.
    pub(super) fn has_room(&self) -> bool {
        self.held < HELD_MAX
    }

    /// Returns whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Holds bytes until they are due, or until those before them are.
    pub(super) fn hold(&mut self, bytes: &[u8], due: Instant) {
        let before = self.chunks.back().map(|chunk| chunk.due);
        self.held += bytes.len();
        self.chunks.push_back(HeldChunk {
            bytes: bytes.to_vec(),
            sent: 0,
            due: before.map_or(due, |before| before.max(due)),
        });
    }

    /// When the first bytes are due.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.chunks.front().map(|chunk| chunk.due)
    }

    /// The first bytes, if they are due.
    pub(super) fn due_at(&self, now: Instant) -> Option<&[u8]> {
        let first = self.chunks.front().filter(|chunk| chunk.due <= now)?;
        Some(&first.bytes[first.sent..])
    }

    /// Removes as many of the first bytes. Returns when these were due, if the chunk that came with them is all sent.
    pub(super) fn sent(&mut self, count: usize) -> Option<Instant> {
        let first = self.chunks.front_mut()?;
        first.sent += count;
        self.held -= count;
        if first.sent < first.bytes.len() {
            return None;
        }
        self.chunks.pop_front().map(|chunk| chunk.due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sublet_sim::rng::SimRng;

    use super::*;

    #[test]
    fn bytes_leave_in_order_and_none_before_its_time() {
        let (origin, mut luck) = (Instant::now(), SimRng::seeded(4));
        let mut held = HeldBytes::default();
        let (mut came, mut left) = (Vec::<(u8, Instant)>::new(), 0);
        for micros in 0..20_000u64 {
            let now = origin + Duration::from_micros(micros);
            if luck.happens(0.2) {
                let due = now + Duration::from_micros(luck.below(500));
                let bytes: Vec<u8> = (0..=luck.below(7)).map(|_| luck.bits() as u8).collect();
                came.extend(bytes.iter().map(|byte| (*byte, due)));
                held.hold(&bytes, due);
            }
            while let Some(bytes) = held.due_at(now) {
                let some = 1 + luck.below(bytes.len() as u64) as usize;
                for byte in &bytes[..some] {
                    assert_eq!(*byte, came[left].0);
                    assert!(came[left].1 <= now, "byte {left} left too early");
                    left += 1;
                }
                held.sent(some);
            }
        }
        assert!(came.len() > 10_000 && came.len() - left < 1000);
    }

    #[test]
    fn what_is_held_is_bounded_and_counted_down() {
        let now = Instant::now();
        let mut held = HeldBytes::default();
        held.hold(&vec![0; HELD_MAX], now);
        assert!(!held.has_room());
        assert_eq!(held.sent(1), None, "the chunk is not all sent");
        assert!(held.has_room());
        assert_eq!(held.sent(HELD_MAX - 1), Some(now));
        assert!(held.is_empty());
    }
}
