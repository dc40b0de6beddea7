//! A lender in memory, which delays, loses, reorders and lies.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::api::{GetOutcome, PageKey};
use crate::borrowing::{
    AwayTicket, FarAddress, LeaseSlot, OutboundPage, PageSeal, SealTag, SendOutcome,
};

use super::*;

/// A write on its way to the lender.
struct Write {
    page: OutboundPage,
    bytes: Vec<u8>,
    tag: SealTag,
}

/// What lies at an address of the lender.
type Stored = HashMap<FarAddress, Vec<u8>>;

pub(super) struct FakeLender {
    /// Makes tags, as the key of all leases.
    key: RandomState,
    stored: Stored,
    /// What lay there before the last write.
    older: Stored,
    writes: Vec<Write>,
    /// How many indices of each lease were lent so far.
    indices: HashMap<LeaseSlot, u32>,
}

/// What a fetch of a page brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchAnswer {
    /// What the lender has.
    Honest,
    /// What the lender had before.
    Old,
    /// What another page has.
    Swapped,
    /// Some other bytes.
    Altered,
    /// Nothing.
    Absent,
}

impl FetchAnswer {
    pub(super) const ALL: [FetchAnswer; 5] = [
        FetchAnswer::Honest,
        FetchAnswer::Old,
        FetchAnswer::Swapped,
        FetchAnswer::Altered,
        FetchAnswer::Absent,
    ];
}

impl FakeLender {
    pub(super) fn new() -> FakeLender {
        FakeLender {
            key: RandomState::new(),
            stored: Stored::new(),
            older: Stored::new(),
            writes: Vec::new(),
            indices: HashMap::new(),
        }
    }

    /// Lends blocks more under a lease.
    pub(super) fn lend(&mut self, store: &Store, lease: LeaseSlot, blocks: u32) -> bool {
        let next = self.indices.entry(lease).or_default();
        let added = store.add_to_lease(lease, lease.0.into(), *next..*next + blocks);
        if added.is_ok() {
            *next += blocks;
        }
        added.is_ok()
    }

    /// How many indices of a lease were lent so far.
    pub(super) fn lent(&self, lease: LeaseSlot) -> u32 {
        self.indices.get(&lease).copied().unwrap_or(0)
    }

    fn tag(&self, address: FarAddress, sequence: u32, bytes: &[u8]) -> SealTag {
        let half = |salt: u64| self.key.hash_one((salt, address, sequence, bytes));
        let both = u128::from(half(1)) << 64 | u128::from(half(2));
        SealTag(both.to_le_bytes())
    }

    /// Takes some pages out of the outbox and sends them.
    pub(super) fn carry(&mut self, worker: &Worker, lease: LeaseSlot, most: usize) -> usize {
        let (mut writes, this) = (Vec::new(), &*self);
        let taken = worker.take_outbound(lease, most, |page, bytes| {
            let tag = this.tag(page.address, page.sequence, bytes);
            let bytes = bytes.to_vec();
            writes.push(Write { page, bytes, tag });
        });
        self.writes.append(&mut writes);
        taken
    }

    /// The number of writes on their way.
    pub(super) fn under_way(&self) -> usize {
        self.writes.len()
    }

    /// Answers one of the writes. A lost one may have been done all the same.
    pub(super) fn answer(&mut self, worker: &Worker, nth: usize, is_lost: bool, is_done: bool) {
        let write = self.writes.swap_remove(nth);
        if is_done || !is_lost {
            let address = write.page.address;
            if let Some(older) = self.stored.insert(address, write.bytes) {
                self.older.insert(address, older);
            }
        }
        let outcome = match is_lost {
            true => SendOutcome::Lost,
            false => SendOutcome::Taken(write.tag),
        };
        worker.settle(write.page, outcome);
    }

    /// Carries and answers all that waits.
    pub(super) fn settle_all(&mut self, worker: &Worker, lease: LeaseSlot) {
        while self.carry(worker, lease, 16) > 0 {}
        while self.under_way() > 0 {
            self.answer(worker, 0, false, true);
        }
    }

    /// The bytes that a fetch brings now, if they open under the ticket's seal.
    pub(super) fn fetch(&self, ticket: &AwayTicket, answer: FetchAnswer) -> Option<Vec<u8>> {
        let address = ticket.address;
        let bytes = match answer {
            FetchAnswer::Honest => self.stored.get(&address)?.clone(),
            FetchAnswer::Old => self.older.get(&address)?.clone(),
            FetchAnswer::Swapped => self.stored.values().next()?.clone(),
            FetchAnswer::Altered => page_of(12345),
            FetchAnswer::Absent => return None,
        };
        let PageSeal { tag, sequence } = ticket.seal;
        (self.tag(address, sequence, &bytes) == tag).then_some(bytes)
    }
}

impl PoolClient {
    /// Ends a get by a ticket. Returns the content that it brought.
    pub(super) fn end_get(
        &self,
        key: PageKey,
        ticket: &AwayTicket,
        page: Option<&[u8]>,
    ) -> (GetOutcome, Option<u64>) {
        let mut content = None;
        let visit = |page: &[u8]| content = Some(content_of(page));
        let got = match page {
            Some(page) => self
                .worker
                .arrived(self.tenant, key, ticket, page, NOW, visit),
            None => self.worker.gone(self.tenant, key, ticket, NOW, visit),
        };
        assert_eq!(got == GetOutcome::Hit, content.is_some());
        (got, content)
    }

    /// Begins a get. Returns its outcome, and the content if it was a hit.
    pub(super) fn begin_get(&self, object: u64, index: u32) -> (GetOutcome, Option<u64>) {
        let mut content = None;
        let key = self.key(object, index);
        let visit = |page: &[u8]| content = Some(content_of(page));
        let got = self.worker.get_page(self.tenant, key, NOW, visit);
        (got, content)
    }

    /// Gets a page, from its lender if it is there.
    pub(super) fn get_with(&self, lender: &FakeLender, object: u64, index: u32) -> Option<u64> {
        let (got, content) = self.begin_get(object, index);
        let GetOutcome::Away(ticket) = got else {
            return content;
        };
        let page = lender.fetch(&ticket, FetchAnswer::Honest);
        self.end_get(self.key(object, index), &ticket, page.as_deref())
            .1
    }
}
