//! The misses of a textbook LRU that spends no byte on anything but keys and values.

use std::collections::{HashMap, VecDeque};

/// The misses of `requests` if items of `bytes_of(key)` bytes share `memory` bytes, and the least recently used item
/// goes.
pub(super) fn lru_misses(memory: u64, requests: &[u32], bytes_of: impl Fn(u32) -> u64) -> u64 {
    let mut model = LruModel::default();
    let mut misses = 0;
    for (turn, &key) in requests.iter().enumerate() {
        model.queue.push_back((key, turn));
        if model.turns.insert(key, turn).is_none() {
            misses += 1;
            model.used += bytes_of(key);
            model.shrink_to(memory, &bytes_of);
        }
    }
    misses
}

#[derive(Default)]
struct LruModel {
    /// The valid turn of each key that is there.
    turns: HashMap<u32, usize>,
    /// Keys by turn. An entry is skipped if its turn is no longer valid.
    queue: VecDeque<(u32, usize)>,
    used: u64,
}

impl LruModel {
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
    fn what_was_used_last_stays() {
        let requests = [1, 2, 1, 3, 1, 2];
        let one = |_| 1;
        assert_eq!(lru_misses(2, &requests, one), 4);
        assert_eq!(lru_misses(3, &requests, one), 3);
        assert_eq!(lru_misses(4, &requests, u64::from), 4);
        assert_eq!(lru_misses(3, &requests, u64::from), 5);
    }
}
