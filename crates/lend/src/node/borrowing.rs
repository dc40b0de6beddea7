//! The node as a borrower: requests, grants, returns and recalls.

use std::time::Duration;

use super::action::LendingAction;
use super::event::{BorrowEnd, LendingChange, ReturnReason};
use super::link::{Membership, PeerIntent, ShutCause};
use super::machine::LendingNode;
use super::status::LendingPhase;
use crate::borrower::{EndedBorrow, GrantOutcome, LenderCandidate, LenderShare, choose_lenders};
use crate::control::{
    BlockCount, Borrow, ControlMessage, End, Grant, GrantLimit, LeaseAudit, RecallNotice,
    RecalledRanges, ReturnedRanges,
};
use crate::ids::{LeaseId, PeerId};
use crate::index_set::IndexRanges;

/// How long a lender that leaves is expected to wait for its blocks.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

impl LendingNode {
    /// Asks lenders if the node wants more than it has and has asked for, and lends nothing itself.
    pub(super) fn ask_lenders(&mut self, now: Duration) {
        if self.on_demand.is_some() {
            return self.ask_wished(now);
        }
        let wish = self.lacking();
        if wish == 0 || self.phase.goes() || !self.roles.may_ask() {
            return;
        }
        let candidates: Vec<LenderCandidate> = self
            .peers()
            .filter_map(|peer| self.candidate(now, peer))
            .collect();
        for LenderShare { peer, blocks } in choose_lenders(wish, &candidates) {
            let blocks = BlockCount::saturating(blocks);
            self.borrows.ask(peer, blocks.get());
            self.send(now, peer, ControlMessage::Borrow(Borrow { blocks }));
        }
    }

    fn candidate(&self, now: Duration, peer: PeerId) -> Option<LenderCandidate> {
        let link = &self.links[peer.slot()];
        let is_member = link.membership == Membership::Member;
        let is_open = link.is_up() && is_member && link.session.intent == PeerIntent::Stays;
        (is_open && self.borrows.may_ask(peer, now)).then_some(LenderCandidate {
            peer,
            lendable: link.session.report.lendable.get(),
            round_trip: link.session.round_trip,
        })
    }

    pub(super) fn grant(&mut self, now: Duration, peer: PeerId, grant: &Grant) {
        let Ok(outcome) = self.borrows.granted(peer, now, grant) else {
            return self.shut(now, peer, ShutCause::Grant);
        };
        let (lease, blocks, limit) = (grant.lease, grant.count.get(), grant.limit);
        let link = &mut self.links[peer.slot()];
        let Some(incarnation) = link.session.incarnation else {
            return;
        };
        link.counters.borrowed += u64::from(blocks);
        if let Some(limit) = limit.filter(|limit| *limit != GrantLimit::Turn) {
            *link.counters.refused_by_peer.entry(limit).or_default() += 1;
        }
        match outcome {
            GrantOutcome::Refused => return self.borrow_refused(peer, grant),
            GrantOutcome::Opened(range) => {
                self.actions.push(LendingAction::OpenLease {
                    peer,
                    incarnation,
                    lease,
                    range,
                });
            }
            GrantOutcome::Extended(range) => {
                self.actions
                    .push(LendingAction::ExtendLease { peer, lease, range });
            }
        }
        self.links[peer.slot()].borrow_refusal_logged = None;
        self.log(
            peer,
            LendingChange::Borrowed {
                lease,
                blocks,
                limit,
            },
        );
        // It was asked for before this node began to go.
        if self.phase.goes() {
            self.return_all(now, peer);
        }
    }

    fn borrow_refused(&mut self, peer: PeerId, grant: &Grant) {
        let link = &mut self.links[peer.slot()];
        let limit = grant.limit.unwrap_or(GrantLimit::Other);
        if link.borrow_refusal_logged.replace(limit) != Some(limit) {
            self.log(peer, LendingChange::BorrowRefused { limit });
        }
    }

    /// A lender wants blocks back. The store chooses which.
    pub(super) fn return_asked(&mut self, peer: PeerId, notice: RecallNotice) {
        let blocks = notice.blocks.get().min(self.borrows.borrowed_of(peer));
        if blocks == 0 {
            return;
        }
        self.log(peer, LendingChange::ReturnAsked { blocks });
        let within = Duration::from_millis(u64::from(notice.within_ms.get()));
        let reason = ReturnReason::Recalled;
        self.actions.push(LendingAction::ChooseReturns {
            peer,
            blocks,
            within,
            reason,
        });
    }

    /// Gives a lender all its blocks back, because one of both leaves.
    pub(super) fn return_all(&mut self, now: Duration, peer: PeerId) {
        let within = match self.phase {
            LendingPhase::Leaving { until } => until.saturating_sub(now),
            _ => LEAVE_WITHIN,
        };
        let blocks = self.borrows.borrowed_of(peer);
        if blocks > 0 {
            let reason = ReturnReason::Leaving;
            self.actions.push(LendingAction::ChooseReturns {
                peer,
                blocks,
                within,
                reason,
            });
        }
    }

    /// The store gives blocks back. If the connection is lost, the lender finds out by the counts of a later ping.
    pub(super) fn blocks_returned(
        &mut self,
        now: Duration,
        peer: PeerId,
        lease: LeaseId,
        (ranges, reason): (&IndexRanges, ReturnReason),
    ) {
        for ranges in self.borrows.give_back(peer, lease, ranges) {
            let blocks = ranges.count();
            self.links[peer.slot()].counters.returned += u64::from(blocks);
            self.want_less(blocks);
            self.log(
                peer,
                LendingChange::Returned {
                    lease,
                    blocks,
                    reason,
                },
            );
            if self.links[peer.slot()].is_up() {
                self.send(
                    now,
                    peer,
                    ControlMessage::Return(ReturnedRanges { lease, ranges }),
                );
            }
        }
    }

    pub(super) fn taken_by_lender(
        &mut self,
        now: Duration,
        peer: PeerId,
        recalled: RecalledRanges,
    ) {
        let Some(part) = self
            .borrows
            .recalled(peer, now, recalled.lease, recalled.ranges)
        else {
            self.links[peer.slot()].counters.lines_late += 1;
            return;
        };
        if part.count == 0 {
            return;
        }
        let (lease, blocks) = (part.lease, part.count);
        self.links[peer.slot()].counters.taken_by_peer += u64::from(blocks);
        self.want_less(blocks);
        self.log(peer, LendingChange::TakenByLender { lease, blocks });
        self.actions.push(LendingAction::ForgetBlocks {
            peer,
            lease,
            ranges: part.ranges,
        });
    }

    pub(super) fn ended_by_lender(&mut self, peer: PeerId, end: End) {
        match self.borrows.ended(peer, end.lease) {
            Some(blocks) => {
                self.links[peer.slot()].counters.taken_by_peer += u64::from(blocks);
                self.want_less(blocks);
                self.borrow_ended(peer, end.lease, BorrowEnd::Lender(end.why));
            }
            None => self.links[peer.slot()].counters.lines_late += 1,
        }
    }

    /// Counts the blocks of a lease that ended at once, and lets the store forget it.
    pub(super) fn borrow_lost(&mut self, peer: PeerId, ended: EndedBorrow, reason: BorrowEnd) {
        let EndedBorrow { lease, blocks } = ended;
        self.links[peer.slot()].counters.borrows_ended += u64::from(blocks);
        self.want_less(blocks);
        self.borrow_ended(peer, lease, reason);
    }

    /// Wants nothing in place of blocks that went until the want is measured anew. The store may still sweep their
    /// records, so that others would have no room.
    fn want_less(&mut self, blocks: u32) {
        self.wanted = self.wanted.saturating_sub(blocks);
    }

    /// Lets the store forget a borrowed lease, and logs why.
    fn borrow_ended(&mut self, peer: PeerId, lease: LeaseId, reason: BorrowEnd) {
        self.log(peer, LendingChange::BorrowEnded { lease, reason });
        self.actions.push(LendingAction::EndLease { peer, lease });
    }

    pub(super) fn audited(&mut self, now: Duration, peer: PeerId, audit: LeaseAudit) {
        for claim in self.borrows.claims(peer, audit) {
            self.send(now, peer, ControlMessage::Claim(claim));
        }
    }
}
