//! Counts for each key prefix: what `stats detail` collects and shows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The most prefixes that are told apart; keys with others are not counted.
const PREFIXES_MAX: usize = 10_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// A get that found its item.
    Hit,
    /// A get that did not.
    Miss,
    /// A store.
    Set,
    /// A delete.
    Delete,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// Counts for each key prefix.
#[derive(Debug)]
pub(super) struct Prefixes {
    delimiter: u8,
    collects: AtomicBool,
    counts: Mutex<BTreeMap<Vec<u8>, Counts>>,
}

impl Prefixes {
    /// Nothing counted; a prefix ends before the first `delimiter`.
    pub(super) fn new(delimiter: u8, collects: bool) -> Prefixes {
        Prefixes {
            delimiter,
            collects: AtomicBool::new(collects),
            counts: Mutex::default(),
        }
    }

    /// Whether requests are counted now.
    pub(super) fn collects(&self) -> bool {
        self.collects.load(Ordering::Relaxed)
    }

    /// Counts from now on.
    pub(super) fn collect(&self) {
        self.collects.store(true, Ordering::Relaxed);
    }

    /// Counts no more; what was counted stays.
    pub(super) fn stop(&self) {
        self.collects.store(false, Ordering::Relaxed);
    }

    /// Forgets what was counted.
    pub(super) fn clear(&self) {
        self.counts.lock().clear();
    }

    /// Counts a request. Keys without a delimiter have no prefix.
    pub(super) fn count(&self, key: &[u8], what: Counted) {
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
            Counted::Hit => (counts.gets, counts.hits) = (counts.gets + 1, counts.hits + 1),
            Counted::Miss => counts.gets += 1,
            Counted::Set => counts.sets += 1,
            Counted::Delete => counts.deletes += 1,
        }
    }

    /// Appends a line for each prefix.
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        for (prefix, counts) in self.counts.lock().iter() {
            let Counts {
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
        let prefixes = Prefixes::new(b':', true);
        prefixes.count(b"foo:1", Counted::Hit);
        prefixes.count(b"foo:2", Counted::Miss);
        prefixes.count(b"bar:2", Counted::Set);
        prefixes.count(b"none", Counted::Set);
        let mut out = Vec::new();
        prefixes.dump(&mut out);
        let expected =
            "PREFIX bar get 0 hit 0 set 1 del 0\r\nPREFIX foo get 2 hit 1 set 0 del 0\r\nEND\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn the_table_has_an_end() {
        let prefixes = Prefixes::new(b':', true);
        for n in 0..PREFIXES_MAX + 10 {
            prefixes.count(format!("{n}:k").as_bytes(), Counted::Set);
        }
        assert_eq!(prefixes.counts.lock().len(), PREFIXES_MAX);
    }
}
