//! A get of a page that a lender has: the ticket to fetch it by, and what becomes of the page when its bytes have come.

use crate::api::GetOutcome;
use crate::borrowing::{AwayTicket, FarFrame};
use crate::frames::FarState;
use crate::pages::arrivals::Arrivals;
use crate::pages::directory::Whereabouts;
use crate::pages::frame_source::{Displacement, FrameSearch, FrameSource};
use crate::pages::locked_shard::LockedShard;

impl LockedShard<'_> {
    /// Returns whether a far frame's block is still what it was when the page came into it.
    pub(in crate::pages) fn is_far_valid(&self, frame: FarFrame) -> bool {
        self.pages.far.blocks.of(frame).is_of(self.owner.id)
    }

    /// Returns whether a lender has the page of a far frame. Otherwise it is still in the outbox.
    pub(in crate::pages) fn is_at_lender(&self, frame: FarFrame) -> bool {
        self.pages.frames.far().state(frame) != FarState::Outbound
    }

    /// Gets a page from far memory: from the outbox if it is on its way, else by a ticket.
    pub(in crate::pages) fn get_far(
        &mut self,
        frame: FarFrame,
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        if !self.is_far_valid(frame) {
            self.flush_quietly();
            return GetOutcome::Miss;
        }
        let far = self.pages.frames.far();
        match far.state(frame) {
            FarState::Outbound => {
                let slot = far.get(frame).note() as u16;
                self.pages.far.outbox().read(slot, visit);
                self.count_far_hit(frame);
                if self.pool.is_exclusive() {
                    self.flush_quietly();
                }
                GetOutcome::Hit
            }
            _ => GetOutcome::Away(self.ticket(frame)),
        }
    }

    /// The ticket of the page, if a lender has it.
    pub(in crate::pages) fn away_ticket(&self) -> Option<AwayTicket> {
        match self.shard.find(&self.pages.frames, self.object, self.key) {
            Some(Whereabouts::There(frame))
                if self.is_far_valid(frame) && self.is_at_lender(frame) =>
            {
                Some(self.ticket(frame))
            }
            _ => None,
        }
    }

    fn ticket(&self, frame: FarFrame) -> AwayTicket {
        AwayTicket {
            frame,
            address: self.pages.far.blocks.address(frame),
            seal: self.pages.frames.far().seal(frame),
        }
    }

    fn count_far_hit(&mut self, frame: FarFrame) {
        self.shard.tally.hits.bump();
        let record = &self.pages.far.blocks.of(frame).record;
        record.hit(self.now, self.random);
    }

    /// The far frame of the version of the page that a ticket names, if the lender still has it.
    fn still_away(&self, ticket: &AwayTicket) -> Option<FarFrame> {
        let at = self.shard.find(&self.pages.frames, self.object, self.key);
        let Some(Whereabouts::There(frame)) = at else {
            return None;
        };
        let far = self.pages.frames.far();
        let is_same = frame == ticket.frame
            && far.state(frame) == FarState::Away
            && far.seal(frame) == ticket.seal
            && self.is_far_valid(frame);
        is_same.then_some(frame)
    }

    /// Serves a get with the bytes that a ticket has brought. If the page has changed meanwhile, serves what is there.
    pub(in crate::pages) fn arrived(
        &mut self,
        ticket: &AwayTicket,
        page: &[u8],
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        let Some(frame) = self.still_away(ticket) else {
            return self.get_again(visit);
        };
        visit(page);
        self.count_far_hit(frame);
        self.leave_or_come_home(frame, page);
        GetOutcome::Hit
    }

    /// Moves a far page that was hit: in an exclusive pool it leaves, and in others it comes home at its second far hit.
    fn leave_or_come_home(&mut self, frame: FarFrame, page: &[u8]) {
        let facts = self.pages.frames.far().get(frame);
        let was_hit = facts.hits() > 0;
        facts.set_hits(1);
        if self.pool.is_exclusive() {
            self.flush_quietly();
        } else if was_hit {
            self.bring_home(page);
        }
    }

    /// Serves a get whose page a lender does not have any more: a miss, unless the page has changed meanwhile.
    pub(in crate::pages) fn gone(
        &mut self,
        ticket: &AwayTicket,
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        match self.still_away(ticket) {
            None => self.get_again(visit),
            Some(_) => {
                self.flush_quietly();
                let hash = self.hash();
                self.shard.eviction.miss(hash);
                GetOutcome::Miss
            }
        }
    }

    /// Stores a far page here, if a frame is found without waiting. Otherwise the page stays with the lender.
    fn bring_home(&mut self, page: &[u8]) {
        let mut arrivals = Arrivals::new(self.pages, self.tenant_pages);
        let search = FrameSearch::from(Displacement::Always);
        if let FrameSource::Tenant(spare) = self.frame(search, &mut arrivals) {
            let position = self.locate();
            let stored = self.store(&spare, position, &mut arrivals, |unwritten| {
                unwritten.write(page);
            });
            debug_assert_eq!(stored, Ok(()), "an ephemeral page is always stored");
        }
        arrivals.publish();
    }
}
