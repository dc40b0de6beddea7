//! What textbook evictions would miss with no byte spent on anything but keys and values.

use std::collections::{HashMap, VecDeque};

/// Whom to evict first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// Who was stored first.
    Fifo,
    /// Who was used least recently.
    Lru,
}

/// Misses of `requests` where items of `bytes_of(key)` bytes share `memory` bytes.
pub(super) fn misses(
    eviction: Eviction,
    memory: u64,
    requests: &[u32],
    bytes_of: impl Fn(u32) -> u64,
) -> u64 {
    let mut shelf = Shelf::default();
    let mut misses = 0;
    for (turn, &key) in requests.iter().enumerate() {
        match shelf.turns.get_mut(&key) {
            Some(_) if eviction == Eviction::Fifo => {}
            Some(last) => {
                *last = turn;
                shelf.queue.push_back((key, turn));
            }
            None => {
                misses += 1;
                shelf.turns.insert(key, turn);
                shelf.queue.push_back((key, turn));
                shelf.used += bytes_of(key);
                shelf.shrink_to(memory, &bytes_of);
            }
        }
    }
    misses
}

#[derive(Default)]
struct Shelf {
    /// The turn that counts for each key that is there.
    turns: HashMap<u32, usize>,
    /// Keys by turn; an entry whose turn no longer counts is skipped.
    queue: VecDeque<(u32, usize)>,
    used: u64,
}

impl Shelf {
    fn shrink_to(&mut self, memory: u64, bytes_of: impl Fn(u32) -> u64) {
        while self.used > memory {
            let Some((key, turn)) = self.queue.pop_front() else {
                return;
            };
            if self.turns.get(&key) == Some(&turn) {
                self.turns.remove(&key);
                self.used -= bytes_of(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_keeps_what_was_used_and_fifo_does_not() {
        let requests = [1, 2, 1, 3, 1, 2];
        let one = |_| 1;
        assert_eq!(misses(Eviction::Lru, 2, &requests, one), 4);
        assert_eq!(misses(Eviction::Fifo, 2, &requests, one), 5);
        assert_eq!(misses(Eviction::Fifo, 3, &requests, one), 3);
    }
}
