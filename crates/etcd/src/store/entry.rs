//! What a store keeps: entries with their revisions.

use std::fmt;

/// A revision of the store. It rises by one with each change of any key, and 0 comes before all changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision after this one.
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

/// A lease's number. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A leader's term: the revision that created its key. A later leader has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision that created the key. It is another one after the key was gone.
    pub created: Revision,
    /// The revision of the last change.
    pub modified: Revision,
    /// The lease that the key ends with. A key without one stays until it is deleted.
    pub lease: Option<LeaseId>,
}

impl Entry {
    /// Returns the term of a leader whose key this is.
    pub fn term(&self) -> Term {
        Term(self.created.0)
    }
}

/// One change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value now.
    Put(Entry),
    /// The key is gone.
    Deleted {
        /// The key.
        key: String,
        /// The revision that deleted it.
        revision: Revision,
    },
}

impl Change {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            Change::Put(entry) => entry.modified,
            Change::Deleted { revision, .. } => *revision,
        }
    }
}

/// All entries below a prefix at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixSnapshot {
    /// The store's revision.
    pub revision: Revision,
    /// The entries. They need no order.
    pub entries: Vec<Entry>,
}
