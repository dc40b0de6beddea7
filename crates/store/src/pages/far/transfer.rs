//! Pages on their way to a lender: into the outbox, out of it, and what became of them.

use std::sync::atomic::Ordering;

use crate::arena::LiveAmount;
use crate::borrowing::{AwayTicket, FarFrame, LeaseSlot, OutboundPage, PageSeal, SendOutcome};
use crate::frames::FrameId;
use crate::frames::{FarState, StoredKey};
use crate::pages::PageStore;
use crate::pages::directory::Whereabouts;
use crate::pages::evict::SweepBudget;
use crate::pages::shard::Shard;
use crate::tenants::Tenant;
use sublet_types::Second;

impl PageStore {
    /// Sends an ephemeral page that is evicted to a lender, if there is a far frame and room in the outbox. Returns
    /// whether it is sent. Its directory entry then leads to the far frame. The caller is pinned.
    pub(in crate::pages) fn send_away(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        from: FrameId,
        now: Second,
    ) -> bool {
        let tenant_pages = self.tenant_pages(tenant);
        if !tenant_pages.far.may_borrow() || self.is_outbox_full_for(shard) {
            return false;
        }
        let Some(frame) = self.free_far_frame(tenant, shard, now) else {
            return false;
        };
        let block = self.far.blocks.of(frame);
        let far = self.frames.far();
        let lease = block.lease();
        let Some(slot) = self.far.outbox().reserve(lease) else {
            shard.far_free.push_row(far, frame.row());
            return false;
        };
        let facts = far.get(frame);
        let key = self.frames.get(from).key();
        facts.set_key(key);
        facts.set_hits(0);
        facts.set_note(slot.into());
        far.set_state(frame, FarState::Outbound);
        block.in_flight.fetch_add(1, Ordering::AcqRel);
        block.record.gain(LiveAmount::pages(1));
        self.far.outbox().fill(slot, lease, frame, self.bytes(from));
        let object = self.seed.object(key.pool, key.object);
        let (here, there) = (Whereabouts::Here(from), Whereabouts::There(frame));
        shard.set(&self.frames, object, key, here, there);
        true
    }

    /// Returns whether the outbox has no room for a page that would go into a shard's next far frame. It touches no
    /// record of a frame.
    #[inline]
    fn is_outbox_full_for(&self, shard: &Shard) -> bool {
        let next = shard.far_free.head().map(FarFrame::from);
        next.is_some_and(|next| {
            let lease = self.far.blocks.of(next).lease();
            self.far.outbox().is_full_for(lease)
        })
    }

    /// A free far frame of a block that the tenant still has.
    fn free_far_frame(&self, tenant: &Tenant, shard: &mut Shard, now: Second) -> Option<FarFrame> {
        let far = self.frames.far();
        let budget = &mut SweepBudget::default();
        while !budget.is_spent() {
            match shard.far_free.pop_newest_row(far) {
                Some(row) if self.far.blocks.of(row.into()).is_of(tenant.id) => {
                    return Some(row.into());
                }
                Some(_) => budget.spend(),
                None => {
                    let far_pages = &self.tenant_pages(tenant).far;
                    let mut came = false;
                    for frame in far_pages.some_frames(&self.far.blocks, tenant, now) {
                        far.get(frame).set_shard(shard.number());
                        shard.far_free.push_row(far, frame.row());
                        came = true;
                    }
                    if !came {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Frees the frame of a far page that left the directory, or has it freed when the lender has answered.
    pub(in crate::pages) fn free_far(&self, tenant: &Tenant, shard: &mut Shard, frame: FarFrame) {
        let far = self.frames.far();
        match far.state(frame) {
            FarState::Outbound => far.set_state(frame, FarState::Cancelled),
            _ => self.vacate_far(tenant, shard, frame),
        }
        self.far.blocks.of(frame).record.lose(LiveAmount::pages(1));
    }

    /// Makes a far frame free, or nobody's if its block was dropped.
    fn vacate_far(&self, tenant: &Tenant, shard: &mut Shard, frame: FarFrame) {
        let far = self.frames.far();
        far.set_state(frame, FarState::Idle);
        if self.far.blocks.of(frame).is_of(tenant.id) {
            shard.far_free.push_row(far, frame.row());
        }
    }

    /// Takes pages that wait for a lease out of the outbox, oldest first. `send` gets each with its bytes.
    pub(crate) fn take_outbound(
        &self,
        lease: LeaseSlot,
        most: usize,
        mut send: impl FnMut(OutboundPage, &[u8]),
    ) -> usize {
        let (outbox, blocks) = (self.far.outbox(), &self.far.blocks);
        let mut taken = 0;
        while taken < most
            && let Some((slot, frame)) = outbox.next(lease)
        {
            let block = blocks.of(frame);
            let Some(tenant) = block.record.account() else {
                debug_assert!(false, "a block with pages on their way has a tenant");
                break;
            };
            let page = OutboundPage {
                slot,
                frame,
                tenant,
                address: blocks.address(frame),
                sequence: 0,
            };
            match block.next_write() {
                None => self.settle(page, SendOutcome::Lost),
                Some(sequence) => {
                    let page = OutboundPage { sequence, ..page };
                    outbox.read(slot, |bytes| send(page, bytes));
                    taken += 1;
                }
            }
        }
        let sent = self.far.sent(lease);
        sent.fetch_add(taken as u64, Ordering::Relaxed);
        taken
    }

    /// Returns whether the frame of a ticket still has the version that the ticket names.
    pub(crate) fn is_current(&self, ticket: &AwayTicket) -> bool {
        let far = self.frames.far();
        far.state(ticket.frame) == FarState::Away && far.seal(ticket.frame) == ticket.seal
    }

    /// Records what became of a page that was sent, and frees its place in the outbox.
    pub(crate) fn settle(&self, page: OutboundPage, outcome: SendOutcome) {
        let far = self.frames.far();
        let (frame, lease) = (page.frame, page.address.lease);
        let block = self.far.blocks.of(frame);
        let Some(tenant) = self.tenants.get(page.tenant) else {
            debug_assert!(false, "a page on its way has a tenant");
            return;
        };
        let shards = self.tenant_pages(tenant).shards();
        let mut shard = shards[usize::from(far.get(frame).shard())].lock();
        match (far.state(frame), outcome) {
            (FarState::Outbound, SendOutcome::Taken(tag)) => {
                let sequence = page.sequence;
                far.set_seal(frame, PageSeal { tag, sequence });
                far.set_state(frame, FarState::Away);
            }
            (FarState::Outbound, SendOutcome::Lost) => {
                let key = far.get(frame).key();
                self.remove_far(&mut shard, key);
                block.record.lose(LiveAmount::pages(1));
                self.vacate_far(tenant, &mut shard, frame);
            }
            _ => self.vacate_far(tenant, &mut shard, frame),
        }
        block.in_flight.fetch_sub(1, Ordering::AcqRel);
        // While the shard is locked, no get reads the page from the outbox.
        self.far.outbox().release(page.slot, lease);
    }

    fn remove_far(&self, shard: &mut Shard, key: StoredKey) {
        let object = self.seed.object(key.pool, key.object);
        let was = shard.remove(&self.frames, object, key);
        debug_assert!(matches!(was, Some(Whereabouts::There(_))));
    }
}
