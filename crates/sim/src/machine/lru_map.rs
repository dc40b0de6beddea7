//! Entries in the order of their last use.

use std::hash::Hash;

use super::use_log::{LastUseTable, NEVER, UseLog};
use crate::stable_hash::StableHashMap;

/// A table that knows which entry was used last, and which the longest ago. Every operation takes constant time.
#[derive(Clone, Debug)]
pub(crate) struct LruMap<K, V> {
    places: StableHashMap<K, u32>,
    nodes: Vec<Node<K, V>>,
    /// Nodes that hold nothing.
    vacant: Vec<u32>,
    uses: UseLog,
}

#[derive(Clone, Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    last_use: u32,
}

impl<K, V> LastUseTable for Vec<Node<K, V>> {
    fn last_use(&self, number: u32) -> u32 {
        self[number as usize].last_use
    }

    fn set_last_use(&mut self, number: u32, at: u32) {
        self[number as usize].last_use = at;
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Default for LruMap<K, V> {
    fn default() -> LruMap<K, V> {
        LruMap {
            places: StableHashMap::default(),
            nodes: Vec::new(),
            vacant: Vec::new(),
            uses: UseLog::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> LruMap<K, V> {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there is an entry for this key. This does not count as a use.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// The entry of this key. This does not count as a use.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        let place = *self.places.get(key)?;
        Some(&self.nodes[place as usize].value)
    }

    /// The entry of this key, to change it. This does not count as a use.
    pub(crate) fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = *self.places.get(key)?;
        Some(&mut self.nodes[place as usize].value)
    }

    /// Uses the entry of this key: it becomes the hottest.
    pub(crate) fn touch(&mut self, key: &K) -> Option<&mut V> {
        let place = *self.places.get(key)?;
        self.record_use(place);
        Some(&mut self.nodes[place as usize].value)
    }

    /// Enters a key as the hottest. Returns its previous value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(old) = self.touch(&key) {
            return Some(std::mem::replace(old, value));
        }
        let place = self.place_for(key, value);
        self.places.insert(key, place);
        self.record_use(place);
        None
    }

    /// Removes the entry of this key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.remove(key)?;
        Some(self.vacate(place).value)
    }

    /// Removes the coldest entry.
    pub(crate) fn pop_coldest(&mut self) -> Option<(K, V)> {
        let place = self.uses.pop_coldest(&self.nodes)?;
        let Node { key, value, .. } = *self.vacate(place);
        self.places.remove(&key);
        Some((key, value))
    }

    fn record_use(&mut self, place: u32) {
        self.uses.record(&mut self.nodes, place, self.places.len());
    }

    fn vacate(&mut self, place: u32) -> &Node<K, V> {
        let node = &mut self.nodes[place as usize];
        node.last_use = NEVER;
        self.vacant.push(place);
        node
    }

    fn place_for(&mut self, key: K, value: V) -> u32 {
        let node = Node {
            key,
            value,
            last_use: NEVER,
        };
        if let Some(place) = self.vacant.pop() {
            self.nodes[place as usize] = node;
            return place;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SimRng;

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut recency = LruMap::default();
        let mut model: Vec<(u64, u64)> = Vec::new();
        let mut rng = SimRng::seeded(11);
        for step in 0..20_000u64 {
            let key = rng.below(40);
            let place = model.iter().position(|entry| entry.0 == key);
            match rng.below(4) {
                0 => {
                    let old = place.map(|place| model.remove(place).1);
                    model.push((key, step));
                    assert_eq!(recency.insert(key, step), old);
                }
                1 => {
                    let entry = place.map(|place| model.remove(place));
                    model.extend(entry);
                    assert_eq!(recency.touch(&key).copied(), entry.map(|e| e.1));
                }
                2 => {
                    let old = place.map(|place| model.remove(place).1);
                    assert_eq!(recency.remove(&key), old);
                }
                _ => {
                    let coldest = (!model.is_empty()).then(|| model.remove(0));
                    assert_eq!(recency.pop_coldest(), coldest);
                }
            }
            assert_eq!(recency.len(), model.len());
        }
    }
}
