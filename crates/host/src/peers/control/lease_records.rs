//! The leases that this node has of lenders: the store's number of each, and the key that seals its pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use sublet_lend::ids::{Incarnation, LeaseId, PeerId};
use sublet_lend::seal::LeaseKey;
use sublet_store::{LEASES_MAX, LeaseSlot};

/// Whether the pages of a lease can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAccess {
    /// They can.
    Open,
    /// The connection to the lender is lost. The pages count as away until it is back or the lease ends.
    Suspended,
}

/// One lease.
#[derive(Debug)]
pub struct LeaseRecord {
    /// The lender.
    pub peer: PeerId,
    /// The lender's run.
    pub incarnation: Incarnation,
    /// The lender's number of the lease.
    pub lease: LeaseId,
    /// The store's number of the lease.
    pub slot: LeaseSlot,
    /// What seals its pages. No other lease has it.
    pub key: Arc<LeaseKey>,
    is_suspended: AtomicBool,
}

impl LeaseRecord {
    pub(super) fn new(
        (peer, lease): (PeerId, LeaseId),
        incarnation: Incarnation,
        slot: LeaseSlot,
        key: LeaseKey,
    ) -> LeaseRecord {
        LeaseRecord {
            peer,
            incarnation,
            lease,
            slot,
            key: Arc::new(key),
            is_suspended: AtomicBool::new(false),
        }
    }

    /// Whether its pages can be reached now.
    pub fn access(&self) -> LeaseAccess {
        match self.is_suspended.load(Ordering::Relaxed) {
            true => LeaseAccess::Suspended,
            false => LeaseAccess::Open,
        }
    }
}

/// All leases, by the store's numbers of them. There are [`LEASES_MAX`] at most.
#[derive(Debug)]
pub struct LeaseRecords {
    slots: RwLock<LeaseSlots>,
}

#[derive(Debug)]
struct LeaseSlots {
    records: Box<[Option<Arc<LeaseRecord>>]>,
    /// Where the search for a free number begins. Numbers go round, so that one is not used again soon.
    next: usize,
}

impl Default for LeaseRecords {
    fn default() -> LeaseRecords {
        LeaseRecords {
            slots: RwLock::new(LeaseSlots {
                records: (0..LEASES_MAX).map(|_| None).collect(),
                next: 0,
            }),
        }
    }
}

impl LeaseRecords {
    /// The lease that has this number.
    pub fn at(&self, slot: LeaseSlot) -> Option<Arc<LeaseRecord>> {
        self.slots.read().records.get(usize::from(slot.0))?.clone()
    }

    /// A lease of a lender.
    pub fn find(&self, peer: PeerId, lease: LeaseId) -> Option<Arc<LeaseRecord>> {
        let slots = self.slots.read();
        let mut all = slots.records.iter().flatten();
        let is_it = |record: &&Arc<LeaseRecord>| record.peer == peer && record.lease == lease;
        all.find(is_it).cloned()
    }

    /// All leases.
    pub fn all(&self) -> Vec<Arc<LeaseRecord>> {
        let slots = self.slots.read();
        slots.records.iter().flatten().cloned().collect()
    }

    /// Numbers that no lease has, those that were used least lately first.
    pub(super) fn vacant(&self) -> Vec<LeaseSlot> {
        let slots = self.slots.read();
        let places = (slots.next..LEASES_MAX).chain(0..slots.next);
        let vacant = places.filter(|place| slots.records[*place].is_none());
        vacant.map(|place| LeaseSlot(place as u16)).collect()
    }

    pub(super) fn insert(&self, record: LeaseRecord) {
        let mut slots = self.slots.write();
        let place = usize::from(record.slot.0);
        slots.next = (place + 1) % LEASES_MAX;
        slots.records[place] = Some(Arc::new(record));
    }

    pub(super) fn remove(&self, slot: LeaseSlot) {
        self.slots.write().records[usize::from(slot.0)] = None;
    }

    /// Says whether the leases of a lender can be reached.
    pub(super) fn set_access(&self, peer: PeerId, access: LeaseAccess) {
        let is_suspended = access == LeaseAccess::Suspended;
        for record in self.slots.read().records.iter().flatten() {
            if record.peer == peer {
                record.is_suspended.store(is_suspended, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sublet_lend::seal::Cipher;

    use super::*;

    fn record(slot: LeaseSlot, lease: u32) -> LeaseRecord {
        let key = LeaseKey::new(Cipher::Aes128Gcm, &[7; 32]);
        LeaseRecord::new((PeerId(1), LeaseId(lease)), Incarnation(3), slot, key)
    }

    #[test]
    fn a_number_is_used_again_after_all_others() {
        let records = LeaseRecords::default();
        for lease in 0..2 * LEASES_MAX as u32 {
            let slot = records.vacant()[0];
            assert_eq!(usize::from(slot.0), lease as usize % LEASES_MAX);
            records.insert(record(slot, lease));
            assert_eq!(
                records.find(PeerId(1), LeaseId(lease)).map(|it| it.slot),
                Some(slot)
            );
            assert!(records.find(PeerId(0), LeaseId(lease)).is_none());
            records.remove(slot);
            assert!(records.at(slot).is_none());
        }
    }

    #[test]
    fn a_lenders_leases_are_suspended_together() {
        let records = LeaseRecords::default();
        records.insert(record(LeaseSlot(4), 1));
        records.set_access(PeerId(0), LeaseAccess::Suspended);
        let lease = records.at(LeaseSlot(4)).expect("a lease");
        assert_eq!(lease.access(), LeaseAccess::Open);
        records.set_access(PeerId(1), LeaseAccess::Suspended);
        assert_eq!(lease.access(), LeaseAccess::Suspended);
        records.set_access(PeerId(1), LeaseAccess::Open);
        assert_eq!(lease.access(), LeaseAccess::Open);
    }
}
