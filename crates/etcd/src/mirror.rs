//! A copy of what stands below a prefix, kept by a snapshot and the changes after it.
//!
//! Changes may come twice: a watch that was cut begins again with the last revision that was seen. And an entry may
//! come early, in the answer to a campaign. Each entry's own revision decides what is news.

use std::collections::BTreeMap;

use crate::store::{Change, Entry, PrefixSnapshot, Revision};

/// A copy of what stands below a prefix.
#[derive(Clone, Debug, Default)]
pub struct PrefixMirror {
    entries: BTreeMap<String, Entry>,
    /// The store's revision, as far as the copy knows all changes.
    revision: Revision,
    /// Where the next watch begins.
    watch_from: Revision,
}

/// How the copy changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A key is new, or its value, its lease or its creation are others.
    Put(Entry),
    /// A key is gone.
    Gone(Entry),
}

impl PrefixMirror {
    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The revision up to which all changes are known.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Where the next watch begins. It is the last revision that a watch told, since the store may tell the changes of
    /// one revision in parts. After a snapshot it is the next one.
    pub fn watch_from(&self) -> Revision {
        self.watch_from
    }

    /// Takes a snapshot, and returns what differs from the copy.
    ///
    /// A snapshot that is older than the copy comes from a store that was restored from a backup: see
    /// [`PrefixMirror::is_older`]. Then it alone counts, and revisions begin again with it.
    pub fn take_snapshot(&mut self, snapshot: PrefixSnapshot) -> Vec<Difference> {
        let is_restored = self.is_older(snapshot.revision);
        let at = snapshot.revision;
        let fresh: BTreeMap<String, Entry> = snapshot
            .entries
            .into_iter()
            .map(|entry| (entry.key.clone(), entry))
            .collect();
        let is_gone = |known: &&Entry| {
            (is_restored || known.modified <= at) && !fresh.contains_key(&known.key)
        };
        let gone: Vec<Entry> = self.entries.values().filter(is_gone).cloned().collect();
        let mut differences = Vec::new();
        for entry in gone {
            self.entries.remove(&entry.key);
            differences.push(Difference::Gone(entry));
        }
        for entry in fresh.into_values() {
            let is_news = |known: &Entry| is_restored || entry.modified > known.modified;
            if self.entries.get(&entry.key).is_none_or(is_news) {
                differences.extend(self.put(entry));
            }
        }
        self.revision = at;
        self.watch_from = at.next();
        differences
    }

    /// Returns whether a store of this revision is older than the copy.
    pub fn is_older(&self, revision: Revision) -> bool {
        revision < self.revision
    }

    /// Takes a change that a watch told. Returns what differs, if it is news.
    pub fn take_change(&mut self, change: Change) -> Option<Difference> {
        let revision = change.revision();
        self.revision = self.revision.max(revision);
        self.watch_from = self.watch_from.max(revision);
        match change {
            Change::Put(entry) => self.put_if_newer(entry),
            Change::Deleted { key, revision } => {
                let is_news = self
                    .entries
                    .get(&key)
                    .is_some_and(|known| revision > known.modified);
                let gone = is_news.then(|| self.entries.remove(&key)).flatten();
                gone.map(Difference::Gone)
            }
        }
    }

    /// Takes an entry that came in another answer, ahead of the changes before it. An entry of a revision that is known
    /// may be gone again, so it is no news.
    pub fn take_entry(&mut self, entry: Entry) -> Option<Difference> {
        match entry.modified > self.revision {
            true => self.put_if_newer(entry),
            false => None,
        }
    }

    fn put_if_newer(&mut self, entry: Entry) -> Option<Difference> {
        let known = self.entries.get(&entry.key);
        match known.is_none_or(|known| entry.modified > known.modified) {
            true => self.put(entry),
            false => None,
        }
    }

    /// Enters an entry. Returns it if it differs in more than its revision.
    fn put(&mut self, entry: Entry) -> Option<Difference> {
        let before = self.entries.insert(entry.key.clone(), entry.clone());
        let is_same = before.is_some_and(|before| {
            (before.value, before.created, before.lease)
                == (entry.value.clone(), entry.created, entry.lease)
        });
        (!is_same).then_some(Difference::Put(entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::LeaseId;
    use crate::testing::FakeEtcd;

    const PREFIX: &str = "/p/";

    /// What happens to the store, or to the connection with it.
    #[derive(Clone, Debug)]
    enum HistoryStep {
        Put {
            key: u8,
            value: u8,
            is_leased: bool,
        },
        Delete {
            key: u8,
        },
        /// The next changes are told by a watch.
        Told {
            changes: usize,
        },
        /// The watch is cut. The next one begins where the mirror says.
        Cut,
        /// The store forgets what was told and what was not. The next watch finds out, and the prefix is read again.
        Compact,
        /// An answer brings an entry ahead of the watch.
        Early {
            key: u8,
        },
    }

    fn step() -> impl Strategy<Value = HistoryStep> {
        prop_oneof![
            4 => (0..4_u8, 0..3_u8, any::<bool>())
                .prop_map(|(key, value, is_leased)| HistoryStep::Put { key, value, is_leased }),
            2 => (0..4_u8).prop_map(|key| HistoryStep::Delete { key }),
            4 => (1..4_usize).prop_map(|changes| HistoryStep::Told { changes }),
            1 => Just(HistoryStep::Cut),
            1 => Just(HistoryStep::Compact),
            1 => (0..4_u8).prop_map(|key| HistoryStep::Early { key }),
        ]
    }

    fn key(number: u8) -> String {
        format!("{PREFIX}{number}")
    }

    /// A follower of a store: a mirror, the changes that its watch has yet to tell, and what it told others.
    #[derive(Default)]
    struct Follower {
        mirror: PrefixMirror,
        coming: Vec<Change>,
        told: Vec<Difference>,
    }

    impl Follower {
        fn read(&mut self, store: &FakeEtcd) {
            let differences = self.mirror.take_snapshot(store.read(PREFIX));
            self.told.extend(differences);
            self.coming.clear();
        }

        fn watch(&mut self, store: &FakeEtcd) {
            match store.changes_from(PREFIX, self.mirror.watch_from()) {
                Some(coming) => self.coming = coming,
                None => self.read(store),
            }
        }

        fn hear(&mut self, store: &FakeEtcd, changes: usize) {
            if self.coming.is_empty() {
                self.watch(store);
            }
            let changes = changes.min(self.coming.len());
            for change in self.coming.drain(..changes) {
                self.told.extend(self.mirror.take_change(change));
            }
        }
    }

    /// What somebody knows who hears the differences alone. Nothing is told that this one knew already.
    fn heard(told: &[Difference]) -> Result<BTreeMap<String, Entry>, TestCaseError> {
        let mut known: BTreeMap<String, Entry> = BTreeMap::new();
        for difference in told {
            match difference {
                Difference::Put(entry) => {
                    let before = known.insert(entry.key.clone(), entry.clone());
                    let is_twice = before.is_some_and(|before| {
                        (before.value, before.created, before.lease)
                            == (entry.value.clone(), entry.created, entry.lease)
                    });
                    prop_assert!(!is_twice, "told twice: {entry:?}");
                }
                Difference::Gone(entry) => {
                    prop_assert!(known.remove(&entry.key).is_some(), "gone twice: {entry:?}");
                }
            }
        }
        Ok(known)
    }

    fn without_revisions(
        entries: impl Iterator<Item = Entry>,
    ) -> Vec<(String, Vec<u8>, Revision, Option<LeaseId>)> {
        let mut all: Vec<_> = entries
            .map(|entry| (entry.key, entry.value, entry.created, entry.lease))
            .collect();
        all.sort();
        all
    }

    proptest! {
        #[test]
        fn no_change_is_missed_and_none_is_told_twice(
            steps in proptest::collection::vec(step(), 0..60)
        ) {
            let mut store = FakeEtcd::default();
            let lease = store.grant(std::time::Duration::from_secs(1_000)).lease;
            let mut follower = Follower::default();
            follower.read(&store);
            for step in steps {
                match step {
                    HistoryStep::Put { key: number, value, is_leased } => {
                        let lease = is_leased.then_some(lease);
                        store.put(&key(number), &[value], lease).expect("the lease lives");
                    }
                    HistoryStep::Delete { key: number } => store.delete(&key(number)),
                    HistoryStep::Told { changes } => follower.hear(&store, changes),
                    HistoryStep::Cut => follower.coming.clear(),
                    HistoryStep::Compact => {
                        store.compact();
                        follower.coming.clear();
                    }
                    HistoryStep::Early { key: number } => {
                        let snapshot = store.read(PREFIX);
                        let entry = snapshot.entries.into_iter().find(|entry| entry.key == key(number));
                        let difference = entry.and_then(|entry| follower.mirror.take_entry(entry));
                        follower.told.extend(difference);
                    }
                }
            }
            follower.coming.clear();
            follower.hear(&store, usize::MAX);
            let truth = without_revisions(store.read(PREFIX).entries.into_iter());
            let mirrored = follower.mirror.entries.values().cloned();
            prop_assert_eq!(without_revisions(mirrored), truth.clone());
            let heard = heard(&follower.told)?;
            prop_assert_eq!(without_revisions(heard.into_values()), truth);
        }
    }

    fn entry(modified: u64) -> Entry {
        Entry {
            key: key(0),
            value: vec![1],
            created: Revision(modified),
            modified: Revision(modified),
            lease: None,
        }
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_is_gone() {
        let mut mirror = PrefixMirror::default();
        assert!(mirror.take_change(Change::Put(entry(5))).is_some());
        let deleted = Change::Deleted {
            key: key(0),
            revision: Revision(6),
        };
        assert!(mirror.take_change(deleted).is_some());
        assert_eq!(mirror.take_entry(entry(5)), None);
        assert!(mirror.is_empty());
    }

    #[test]
    fn what_came_early_outlives_a_deletion_before_it() {
        let mut mirror = PrefixMirror::default();
        assert!(mirror.take_change(Change::Put(entry(5))).is_some());
        assert!(mirror.take_entry(entry(8)).is_some());
        let deleted = Change::Deleted {
            key: key(0),
            revision: Revision(7),
        };
        assert_eq!(mirror.take_change(deleted), None);
        assert_eq!(mirror.get(&key(0)), Some(&entry(8)));
        let older = PrefixSnapshot {
            revision: Revision(7),
            entries: Vec::new(),
        };
        assert_eq!(mirror.take_snapshot(older), []);
        assert_eq!(mirror.len(), 1);
    }

    #[test]
    fn a_restored_store_alone_counts() {
        let mut mirror = PrefixMirror::default();
        assert!(mirror.take_change(Change::Put(entry(50))).is_some());
        let snapshot = PrefixSnapshot {
            revision: Revision(10),
            entries: vec![entry(9)],
        };
        assert!(mirror.is_older(snapshot.revision));
        assert_eq!(mirror.take_snapshot(snapshot), [Difference::Put(entry(9))]);
        assert_eq!(
            (mirror.revision(), mirror.watch_from()),
            (Revision(10), Revision(11))
        );
        let empty = PrefixSnapshot {
            revision: Revision(3),
            entries: Vec::new(),
        };
        assert_eq!(mirror.take_snapshot(empty), [Difference::Gone(entry(9))]);
    }
}
