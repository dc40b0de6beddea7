//! Counts of requests by key prefix, which `stats detail` collects and shows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The most prefixes that the table holds. Requests for keys with further prefixes are not counted.
const PREFIXES_MAX: usize = 10_000;

/// The kind of a request that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrefixOperation {
    /// A get that found its item.
    Hit,
    /// A get that did not find its item.
    Miss,
    /// A store.
    Set,
    /// A delete.
    Delete,
}

#[derive(Clone, Copy, Debug, Default)]
struct PrefixCounts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// Counts of requests by key prefix.
#[derive(Debug)]
pub(super) struct Prefixes {
    delimiter: u8,
    collects: AtomicBool,
    counts: Mutex<BTreeMap<Vec<u8>, PrefixCounts>>,
}

impl Prefixes {
    /// Makes a table that counts nothing until [`collect`](Prefixes::collect). A prefix ends before the first `delimiter`.
    pub(super) fn new(delimiter: u8) -> Prefixes {
        Prefixes {
            delimiter,
            collects: AtomicBool::new(false),
            counts: Mutex::default(),
        }
    }

    /// Returns whether requests are counted now.
    pub(super) fn collects(&self) -> bool {
        self.collects.load(Ordering::Relaxed)
    }

    /// Begins to count.
    pub(super) fn collect(&self) {
        self.collects.store(true, Ordering::Relaxed);
    }

    /// Stops counting. The counts stay.
    pub(super) fn stop(&self) {
        self.collects.store(false, Ordering::Relaxed);
    }

    /// Clears the counts.
    pub(super) fn clear(&self) {
        self.counts.lock().clear();
    }

    /// Counts a request. A key without the delimiter has no prefix.
    pub(super) fn count(&self, key: &[u8], what: PrefixOperation) {
        let Some(end) = memchr::memchr(self.delimiter, key) else {
            return;
        };
        let mut table = self.counts.lock();
        let prefix = &key[..end];
        if !table.contains_key(prefix) && table.len() >= PREFIXES_MAX {
            return;
        }
        let counts = table.entry(prefix.to_vec()).or_default();
        match what {
            PrefixOperation::Hit => (counts.gets, counts.hits) = (counts.gets + 1, counts.hits + 1),
            PrefixOperation::Miss => counts.gets += 1,
            PrefixOperation::Set => counts.sets += 1,
            PrefixOperation::Delete => counts.deletes += 1,
        }
    }

    /// Appends a line per prefix.
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        for (prefix, counts) in self.counts.lock().iter() {
            let PrefixCounts {
                gets,
                hits,
                sets,
                deletes,
            } = counts;
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            out.extend_from_slice(
                format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n").as_bytes(),
            );
        }
        out.extend_from_slice(b"END\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_prefix() {
        let prefixes = Prefixes::new(b':');
        prefixes.collect();
        prefixes.count(b"foo:1", PrefixOperation::Hit);
        prefixes.count(b"foo:2", PrefixOperation::Miss);
        prefixes.count(b"bar:2", PrefixOperation::Set);
        prefixes.count(b"none", PrefixOperation::Set);
        let mut out = Vec::new();
        prefixes.dump(&mut out);
        let expected =
            "PREFIX bar get 0 hit 0 set 1 del 0\r\nPREFIX foo get 2 hit 1 set 0 del 0\r\nEND\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn the_table_has_an_end() {
        let prefixes = Prefixes::new(b':');
        prefixes.collect();
        for n in 0..PREFIXES_MAX + 10 {
            prefixes.count(format!("{n}:k").as_bytes(), PrefixOperation::Set);
        }
        assert_eq!(prefixes.counts.lock().len(), PREFIXES_MAX);
    }
}
