//! Seal: a nonce seals one page, and no honest lender is taken for a forger.

use crate::cluster::ids::NodeNumber;
use crate::cluster::seal::{FakeKey, SealNonce};
use crate::cluster::verdict::{ClusterJudge, Finding};
use crate::stable_hash::StableHashMap;

/// The number of the last write of each place: an index, and a page of its block.
type LastWrites = StableHashMap<(u32, u16), u32>;

/// Remembers the last write of each place under each key.
#[derive(Debug, Default)]
pub(in crate::cluster) struct SealJudge {
    by_key: StableHashMap<u64, LastWrites>,
}

impl SealJudge {
    /// A page is sealed. Under a key, the numbers of the writes of a place rise.
    pub(in crate::cluster) fn sealed(&mut self, key: FakeKey, nonce: SealNonce) -> Option<Finding> {
        let SealNonce {
            index,
            place,
            sequence,
        } = nonce;
        let of_key = self.by_key.entry(key.0).or_default();
        let last = of_key.insert((index, place), sequence)?;
        (sequence <= last).then(|| {
            let what = format!(
                "page {place} of index {index} is sealed with number {sequence} after {last}"
            );
            Finding::of(ClusterJudge::Seal, what)
        })
    }

    /// The keys of a lease that ended are forgotten by their borrower, and are never drawn again.
    pub(in crate::cluster) fn forget(&mut self, key: FakeKey) {
        self.by_key.remove(&key.0);
    }

    /// Bytes that an honest lender gave do not open, and nothing excuses that.
    pub(in crate::cluster) fn forged(&self, lender: NodeNumber) -> Option<Finding> {
        let what = format!("{lender} is honest, and what it gave does not open");
        Some(Finding::of(ClusterJudge::Seal, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_once_for_a_place_under_a_key() {
        let mut judge = SealJudge::default();
        let nonce = |place, sequence| SealNonce {
            index: 3,
            place,
            sequence,
        };
        assert_eq!(judge.sealed(FakeKey(1), nonce(0, 1)), None);
        assert_eq!(judge.sealed(FakeKey(1), nonce(0, 4)), None);
        assert_eq!(judge.sealed(FakeKey(1), nonce(1, 4)), None);
        assert_eq!(judge.sealed(FakeKey(2), nonce(0, 4)), None);
        assert!(judge.sealed(FakeKey(1), nonce(0, 4)).is_some());
        assert!(judge.sealed(FakeKey(1), nonce(0, 2)).is_some());
        judge.forget(FakeKey(1));
        assert_eq!(judge.sealed(FakeKey(1), nonce(0, 1)), None);
    }
}
