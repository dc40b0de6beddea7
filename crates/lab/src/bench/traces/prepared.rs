//! A trace that is ready for a replay: every key has its value's size, and both are scaled to the servers' memory.
//!
//! The servers get a share of the footprint, which must be enough memory for both of them. So a small trace is replayed
//! as several copies side by side, request by request, each with its own keys. If that makes too many requests, or if
//! the share would not come out, values are larger or smaller by a factor.

use std::collections::{HashMap, HashSet};
use std::fmt;

use sublet_types::Bytes;

/// Bytes of a key in a replay.
pub(super) const KEY_BYTES: usize = 30;

/// The largest value: half of what either server takes.
const VALUE_MAX: u32 = 512 << 10;

/// The memory of the servers, and the limits of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayBudget {
    pub(super) memory: Bytes,
    /// The memory's share of the footprint.
    pub(super) share: f64,
    pub(super) requests_max: usize,
}

/// A trace that is ready for a replay.
#[derive(Debug)]
pub(super) struct PreparedTrace {
    /// Key numbers in the order of the requests.
    pub(super) requests: Vec<u32>,
    /// Value bytes of each key number.
    pub(super) value_bytes: Vec<u32>,
    copies: usize,
    /// How many times larger the values are than recorded.
    factor: f64,
}

impl PreparedTrace {
    pub(super) fn of(
        ids: &[u64],
        size_of: impl Fn(u64) -> u32,
        room: ReplayBudget,
    ) -> PreparedTrace {
        let wanted = room.memory.0 as f64 / room.share;
        let needed = wanted / footprint(ids, &size_of);
        let affordable = (room.requests_max / ids.len().max(1)).max(1);
        let copies = (needed.round().max(1.0) as usize).min(affordable);
        let factor = needed / copies as f64;
        let scaled = |id| ((f64::from(size_of(id)) * factor) as u32).clamp(1, VALUE_MAX);
        let (requests, value_bytes) = side_by_side(ids, copies, scaled);
        PreparedTrace {
            requests,
            value_bytes,
            copies,
            factor,
        }
    }

    /// Bytes of a key and its value.
    pub(super) fn bytes_of(&self, key: u32) -> u64 {
        u64::from(self.value_bytes[key as usize]) + KEY_BYTES as u64
    }
}

impl fmt::Display for PreparedTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} copies side by side, values {:.2} times as large, {} gets, {} keys",
            self.copies,
            self.factor,
            self.requests.len(),
            self.value_bytes.len()
        )
    }
}

/// Bytes of all keys and values of one copy.
fn footprint(ids: &[u64], size_of: impl Fn(u64) -> u32) -> f64 {
    let distinct: HashSet<u64> = ids.iter().copied().collect();
    let item = |id: &u64| f64::from(size_of(*id)) + KEY_BYTES as f64;
    distinct.iter().map(item).sum::<f64>().max(1.0)
}

/// The requests of `copies` copies, one of each in turn, and the size of each key's value.
fn side_by_side(ids: &[u64], copies: usize, size_of: impl Fn(u64) -> u32) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<(u64, usize), u32> = HashMap::new();
    let mut requests = Vec::with_capacity(ids.len() * copies);
    let mut value_bytes = Vec::new();
    for &id in ids {
        for copy in 0..copies {
            let number = *numbers.entry((id, copy)).or_insert_with(|| {
                value_bytes.push(size_of((copy as u64) << 48 ^ id));
                value_bytes.len() as u32 - 1
            });
            requests.push(number);
        }
    }
    (requests, value_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_no_keys_and_keep_the_order() {
        let (requests, value_bytes) = side_by_side(&[7, 9, 7], 2, |id| id as u32);
        assert_eq!(requests, [0, 1, 2, 3, 0, 1]);
        assert_eq!(value_bytes, [7, 7, 9, 9]);
    }

    #[test]
    fn the_memory_is_its_share_of_what_all_keys_take() {
        let ids: Vec<u64> = (0..1_000).collect();
        for requests_max in [2_000, 1_000_000] {
            let room = ReplayBudget {
                memory: Bytes::mib(1),
                share: 0.1,
                requests_max,
            };
            let trace = PreparedTrace::of(&ids, |id| 500 + id as u32 % 500, room);
            let bytes: u64 = (0..trace.value_bytes.len() as u32)
                .map(|key| trace.bytes_of(key))
                .sum();
            let share = room.memory.0 as f64 / bytes as f64;
            assert!((share / 0.1 - 1.0).abs() < 0.05, "{share}, {trace}");
            assert!(trace.requests.len() <= requests_max);
        }
    }
}
