//! What a simulated page holds: bytes that say whose page it is, which, and which version of it.

use super::ids::NodeNumber;
use crate::rng::mixed;

/// Bytes that identify a page's version. The rest of a page is empty.
pub(super) const STAMP_BYTES: usize = 16;

/// The pools of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum GuestPool {
    /// A cache of a disk, which has every page: ephemeral and keeping.
    Disk,
    /// A ring's pool: ephemeral, and a hit takes the page.
    Ring,
}

impl GuestPool {
    /// All pools.
    pub(super) const ALL: [GuestPool; 2] = [GuestPool::Disk, GuestPool::Ring];

    /// Its place in tables of pools.
    pub(super) fn slot(self) -> usize {
        match self {
            GuestPool::Disk => 0,
            GuestPool::Ring => 1,
        }
    }
}

/// A page of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GuestPage {
    /// Its pool.
    pub(super) pool: GuestPool,
    /// Its number in the pool.
    pub(super) number: u32,
}

/// The content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageContent {
    /// Who wrote it.
    pub(super) node: NodeNumber,
    /// What page it is.
    pub(super) page: GuestPage,
    /// How often the page had been written then. Version 0 of a disk's page is what the disk had at first.
    pub(super) version: u32,
}

impl PageContent {
    /// The bytes.
    pub(super) fn stamp(self) -> [u8; STAMP_BYTES] {
        let first = u64::from(self.node.0)
            | (self.page.pool.slot() as u64) << 16
            | u64::from(self.page.number) << 32;
        let check = check_of(first, self.version);
        let second = u64::from(self.version) | u64::from(check) << 32;
        let both = u128::from(first) | u128::from(second) << 64;
        both.to_le_bytes()
    }

    /// Reads the bytes. `None` if nobody wrote them so.
    pub(super) fn read(stamp: &[u8; STAMP_BYTES]) -> Option<PageContent> {
        let both = u128::from_le_bytes(*stamp);
        let (first, second) = (both as u64, (both >> 64) as u64);
        let (version, check) = (second as u32, (second >> 32) as u32);
        let pool = *GuestPool::ALL.get(usize::from((first >> 16) as u16))?;
        let content = PageContent {
            node: NodeNumber(first as u16),
            page: GuestPage {
                pool,
                number: (first >> 32) as u32,
            },
            version,
        };
        (check == check_of(first, version)).then_some(content)
    }
}

/// Bytes that are all zero are no stamp either.
const CHECK_SALT: u64 = 0x57a3_90e1_c2d4_6b8f;

fn check_of(first: u64, version: u32) -> u32 {
    mixed(CHECK_SALT ^ first ^ u64::from(version).rotate_left(40)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_says_what_it_was_made_of_and_altered_ones_say_nothing() {
        for (node, pool, number, version) in [
            (0, GuestPool::Disk, 0, 0),
            (999, GuestPool::Ring, 7, u32::MAX),
            (u16::MAX, GuestPool::Disk, u32::MAX, 1),
        ] {
            let content = PageContent {
                node: NodeNumber(node),
                page: GuestPage { pool, number },
                version,
            };
            let stamp = content.stamp();
            assert_eq!(PageContent::read(&stamp), Some(content));
            for bit in 0..8 * STAMP_BYTES {
                let mut altered = stamp;
                altered[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(PageContent::read(&altered), Some(content));
                assert!(PageContent::read(&altered).is_none(), "bit {bit}");
            }
        }
        assert_eq!(PageContent::read(&[0; STAMP_BYTES]), None);
    }
}
