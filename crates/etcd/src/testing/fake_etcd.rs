//! etcd's keys, leases and history, without a network. Time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::{
    Change, Entry, LeaseGrant, LeaseId, PrefixSnapshot, Renewal, Revision, StoreError, Term,
};

/// The shortest time to live that a lease is granted.
const TTL_MIN: Duration = Duration::from_secs(2);

/// etcd's keys, leases and history.
#[derive(Clone, Debug, Default)]
pub struct FakeEtcd {
    now: Duration,
    revision: Revision,
    entries: BTreeMap<String, Entry>,
    /// The changes since the last compaction.
    history: Vec<Change>,
    /// Changes up to this revision are forgotten.
    compacted: Revision,
    leases: BTreeMap<LeaseId, FakeLease>,
    last_lease: u64,
    renewals: u64,
}

#[derive(Clone, Copy, Debug)]
struct FakeLease {
    ttl: Duration,
    ends: Duration,
}

impl FakeEtcd {
    /// The store's time.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The store's revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Lets time pass until `now`. Leases that were not renewed end, and their keys are deleted.
    pub fn advance_to(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let ended = |(lease, state): (&LeaseId, &FakeLease)| (state.ends <= now).then_some(*lease);
        let ended: Vec<LeaseId> = self.leases.iter().filter_map(ended).collect();
        ended.into_iter().for_each(|lease| self.revoke(lease));
    }

    /// Lets every lease live for its whole time again, as a new leader of etcd does.
    pub fn extend_leases(&mut self) {
        for lease in self.leases.values_mut() {
            lease.ends = self.now + lease.ttl;
        }
    }

    /// Grants a lease.
    pub fn grant(&mut self, ttl: Duration) -> LeaseGrant {
        let ttl = ttl.max(TTL_MIN);
        self.last_lease += 1;
        let lease = LeaseId(self.last_lease);
        let ends = self.now + ttl;
        self.leases.insert(lease, FakeLease { ttl, ends });
        LeaseGrant { lease, ttl }
    }

    /// How many renewals it was asked for.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }

    /// Renews a lease.
    pub fn renew(&mut self, lease: LeaseId) -> Renewal {
        self.renewals += 1;
        match self.leases.get_mut(&lease) {
            Some(state) => {
                state.ends = self.now + state.ttl;
                Renewal::Renewed(state.ttl)
            }
            None => Renewal::Gone,
        }
    }

    /// Ends a lease, and deletes its keys.
    pub fn revoke(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        let is_of = |entry: &&Entry| entry.lease == Some(lease);
        let keys: Vec<String> = self
            .entries
            .values()
            .filter(is_of)
            .map(|entry| entry.key.clone())
            .collect();
        keys.iter().for_each(|key| self.delete(key));
    }

    /// Sets a key. Returns the revision of the change.
    ///
    /// # Errors
    ///
    /// The lease has ended.
    pub fn put(
        &mut self,
        key: &str,
        value: &[u8],
        lease: Option<LeaseId>,
    ) -> Result<Revision, StoreError> {
        if lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Err(StoreError::LeaseGone);
        }
        self.revision = self.revision.next();
        let created = self.entries.get(key).map(|entry| entry.created);
        let entry = Entry {
            key: key.to_owned(),
            value: value.to_vec(),
            created: created.unwrap_or(self.revision),
            modified: self.revision,
            lease,
        };
        self.entries.insert(key.to_owned(), entry.clone());
        self.history.push(Change::Put(entry));
        Ok(self.revision)
    }

    /// Deletes a key, if it is there.
    pub fn delete(&mut self, key: &str) {
        if self.entries.remove(key).is_some() {
            self.revision = self.revision.next();
            self.history.push(Change::Deleted {
                key: key.to_owned(),
                revision: self.revision,
            });
        }
    }

    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Reads all keys that begin with `prefix`.
    pub fn read(&self, prefix: &str) -> PrefixSnapshot {
        let entries = self.entries.values();
        PrefixSnapshot {
            revision: self.revision,
            entries: entries
                .filter(|entry| entry.key.starts_with(prefix))
                .cloned()
                .collect(),
        }
    }

    /// Returns the changes of a prefix from a revision on. `None` if some of them are forgotten.
    pub fn changes_from(&self, prefix: &str, from: Revision) -> Option<Vec<Change>> {
        let has_prefix = |change: &&Change| match change {
            Change::Put(entry) => entry.key.starts_with(prefix),
            Change::Deleted { key, .. } => key.starts_with(prefix),
        };
        let changes = self
            .history
            .iter()
            .filter(|change| change.revision() >= from);
        (from > self.compacted).then(|| changes.filter(has_prefix).cloned().collect())
    }

    /// Forgets all changes up to now.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    /// Creates the leader's key if nobody has it. Returns who has it.
    ///
    /// # Errors
    ///
    /// The lease has ended.
    pub fn campaign(
        &mut self,
        key: &str,
        value: &[u8],
        lease: LeaseId,
    ) -> Result<Entry, StoreError> {
        if !self.entries.contains_key(key) {
            self.put(key, value, Some(lease))?;
        }
        self.entries.get(key).cloned().ok_or(StoreError::LeaseGone)
    }

    /// Deletes the leader's key if it is of this term.
    pub fn resign(&mut self, key: &str, term: Term) {
        if self.get(key).is_some_and(|entry| entry.term() == term) {
            self.delete(key);
        }
    }
}
