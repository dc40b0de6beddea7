//! Entries in the order of their last use.

use std::hash::Hash;

use crate::table::Table;

const NONE: u32 = u32::MAX;

/// A table whose entries form a list from the hottest to the coldest: every verb takes constant time.
#[derive(Clone, Debug)]
pub struct Recency<K, V> {
    places: Table<K, u32>,
    nodes: Vec<Node<K, V>>,
    /// A list through `colder` of nodes that hold nothing.
    vacant: u32,
    hottest: u32,
    coldest: u32,
}

#[derive(Clone, Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    hotter: u32,
    colder: u32,
}

impl<K: Copy + Eq + Hash, V: Copy> Default for Recency<K, V> {
    fn default() -> Recency<K, V> {
        Recency {
            places: Table::default(),
            nodes: Vec::new(),
            vacant: NONE,
            hottest: NONE,
            coldest: NONE,
        }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Recency<K, V> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether there is an entry of this key; no use of it.
    pub fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// The entry of this key; no use of it.
    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = *self.places.get(key)?;
        Some(&mut self.nodes[place as usize].value)
    }

    /// Uses the entry of this key: it becomes the hottest.
    pub fn touch(&mut self, key: &K) -> Option<&mut V> {
        let place = *self.places.get(key)?;
        if self.hottest != place {
            self.unlink(place);
            self.link_hottest(place);
        }
        Some(&mut self.nodes[place as usize].value)
    }

    /// Enters a key as the hottest; what it had before is returned.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(old) = self.touch(&key) {
            return Some(std::mem::replace(old, value));
        }
        let place = self.place_for(key, value);
        self.places.insert(key, place);
        self.link_hottest(place);
        None
    }

    /// Takes the entry of this key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.remove(key)?;
        self.unlink(place);
        let node = &mut self.nodes[place as usize];
        node.colder = self.vacant;
        self.vacant = place;
        Some(node.value)
    }

    /// Takes the coldest entry out.
    pub fn pop_coldest(&mut self) -> Option<(K, V)> {
        let key = self.nodes.get(self.coldest as usize)?.key;
        let value = self.remove(&key)?;
        Some((key, value))
    }

    fn place_for(&mut self, key: K, value: V) -> u32 {
        let node = Node {
            key,
            value,
            hotter: NONE,
            colder: NONE,
        };
        let place = self.vacant;
        if let Some(vacant) = self.nodes.get_mut(place as usize) {
            self.vacant = vacant.colder;
            *vacant = node;
            return place;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    fn link_hottest(&mut self, place: u32) {
        let next = self.hottest;
        let node = &mut self.nodes[place as usize];
        node.hotter = NONE;
        node.colder = next;
        match self.nodes.get_mut(next as usize) {
            Some(next) => next.hotter = place,
            None => self.coldest = place,
        }
        self.hottest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Node { hotter, colder, .. } = self.nodes[place as usize];
        match self.nodes.get_mut(hotter as usize) {
            Some(node) => node.colder = colder,
            None => self.hottest = colder,
        }
        match self.nodes.get_mut(colder as usize) {
            Some(node) => node.hotter = hotter,
            None => self.coldest = hotter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut recency = Recency::default();
        let mut model: Vec<(u64, u64)> = Vec::new();
        let mut chance = Chance::seeded(11);
        for step in 0..20_000u64 {
            let key = chance.below(40);
            let place = model.iter().position(|entry| entry.0 == key);
            match chance.below(4) {
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
