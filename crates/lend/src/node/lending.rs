//! The node as a lender: requests, grants, returns and counts.

use std::time::Duration;

use super::action::{FreeReason, LendingAction};
use super::event::{LendingChange, LoanEnd};
use super::input::LoanShortfall;
use super::link::{Membership, PeerIntent, PendingLoan};
use super::machine::LendingNode;
use super::settings::LendTo;
use super::status::LendingPhase;
use crate::control::{
    BLOCKS_MAX, BlockCount, Borrow, Claim, ControlMessage, End, Grant, GrantLimit, HeldCounts,
    LeaseEnd, LendReport, RecalledRanges, ReturnedRanges,
};
use crate::ids::{LeaseId, LentBlock, PeerId};
use crate::lender::{FreedBlocks, GrantDecision, GrantInputs, HeldMismatch, LendMax, decide_grant};

impl LendingNode {
    /// What a peer would be granted now, and why not more.
    fn decide(&self, now: Duration, peer: PeerId, asked: u32) -> GrantDecision {
        let set_aside = self.set_aside;
        let inputs = GrantInputs {
            asked,
            lendable: self.lendable.saturating_sub(set_aside),
            lent: self.loans.lent().saturating_add(set_aside),
            lent_to_peer: self.loans.lent_to(peer),
            room: self.loans.room_for(peer),
            barred: self.bar(now, peer),
        };
        decide_grant(self.settings.limits, &inputs)
    }

    /// What the node would lend now beyond what it has lent, to borrowers that its settings name.
    pub(super) fn lendable_now(&self) -> u32 {
        let lends = self.phase == LendingPhase::Lending && self.roles.may_lend(self.ticked_at);
        let more = match self.settings.limits.max {
            LendMax::Auto => u32::MAX,
            LendMax::Blocks(blocks) => blocks.saturating_sub(self.loans.lent()),
        };
        if lends { self.lendable.min(more) } else { 0 }
    }

    /// Why a peer gets nothing at present, whatever there is.
    fn bar(&self, now: Duration, peer: PeerId) -> Option<GrantLimit> {
        let link = &self.links[peer.slot()];
        if link.lend == LendTo::NotNamed || link.membership == Membership::Former {
            Some(GrantLimit::NotNamed)
        } else if self.phase != LendingPhase::Lending || link.session.intent == PeerIntent::Leaves {
            Some(GrantLimit::Draining)
        } else if !self.roles.may_lend(now) {
            Some(GrantLimit::Wants)
        } else if link.notice.is_some() {
            Some(GrantLimit::Recalling)
        } else {
            None
        }
    }

    pub(super) fn report_for(&self, now: Duration, peer: PeerId) -> LendReport {
        let borrowed = self.borrows.borrowed();
        LendReport {
            lendable: BlockCount::saturating(self.decide(now, peer, BLOCKS_MAX).blocks),
            wanted: BlockCount::saturating(self.wanted.saturating_sub(borrowed)),
            lent: BlockCount::saturating(self.loans.lent()),
            borrowed: BlockCount::saturating(borrowed),
        }
    }

    pub(super) fn borrow_asked(&mut self, now: Duration, peer: PeerId, borrow: Borrow) {
        let asked = borrow.blocks.get();
        if self.links[peer.slot()].pending.is_some() {
            return self.refuse(now, peer, Some(GrantLimit::Busy));
        }
        let GrantDecision { blocks, limit } = self.decide(now, peer, asked);
        if blocks == 0 {
            return self.refuse(now, peer, limit);
        }
        let link = &mut self.links[peer.slot()];
        link.pending = Some(PendingLoan {
            session: link.session.ours,
            blocks,
            limit,
        });
        self.set_aside = self.set_aside.saturating_add(blocks);
        self.actions
            .push(LendingAction::LendBlocks { peer, blocks });
    }

    fn refuse(&mut self, now: Duration, peer: PeerId, limit: Option<GrantLimit>) {
        let limit = limit.unwrap_or(GrantLimit::Spare);
        let link = &mut self.links[peer.slot()];
        *link.counters.refusals.entry(limit).or_default() += 1;
        if link.refusal_logged.replace(limit) != Some(limit) {
            self.log(peer, LendingChange::Refused { limit });
        }
        let grant = Grant {
            lease: LeaseId(0),
            first: 0,
            count: BlockCount::default(),
            limit: Some(limit),
        };
        self.send(now, peer, ControlMessage::Grant(grant));
    }

    /// The store has set blocks aside. They are granted if the session that asked is there still, and nothing bars it.
    pub(super) fn blocks_lent(
        &mut self,
        now: Duration,
        peer: PeerId,
        blocks: Vec<LentBlock>,
        shortfall: LoanShortfall,
    ) {
        let link = &mut self.links[peer.slot()];
        let Some(pending) = link.pending.take() else {
            return self.free(blocks, FreeReason::NotGranted);
        };
        self.set_aside = self.set_aside.saturating_sub(pending.blocks);
        let link = &self.links[peer.slot()];
        if !link.is_up() || link.session.ours != pending.session {
            return self.free(blocks, FreeReason::NotGranted);
        }
        if let Some(bar) = self.bar(now, peer) {
            self.free(blocks, FreeReason::NotGranted);
            return self.refuse(now, peer, Some(bar));
        }
        let wished = blocks.len().min(pending.blocks as usize);
        let mut grant = self.loans.grant(peer, &blocks[..wished]);
        grant.left.extend_from_slice(&blocks[wished..]);
        self.free(grant.left, FreeReason::NotGranted);
        let limit = match shortfall {
            _ if grant.count == pending.blocks => pending.limit,
            LoanShortfall::NoMemory => Some(GrantLimit::Spare),
            LoanShortfall::TurnOver => Some(GrantLimit::Turn),
        };
        if grant.count == 0 {
            return self.refuse(now, peer, limit);
        }
        // Until it is measured anew. Otherwise these blocks would count as lent and as lendable.
        self.lendable = self.lendable.saturating_sub(grant.count);
        let link = &mut self.links[peer.slot()];
        link.counters.granted += u64::from(grant.count);
        link.refusal_logged = None;
        if let Some(limit) = limit.filter(|limit| *limit != GrantLimit::Turn) {
            *link.counters.refusals.entry(limit).or_default() += 1;
        }
        self.log(
            peer,
            LendingChange::Granted {
                lease: grant.lease,
                blocks: grant.count,
                limit,
            },
        );
        let count = BlockCount::saturating(grant.count);
        let message = Grant {
            lease: grant.lease,
            first: grant.first,
            count,
            limit,
        };
        self.send(now, peer, ControlMessage::Grant(message));
    }

    pub(super) fn returned_by_peer(
        &mut self,
        now: Duration,
        peer: PeerId,
        returned: &ReturnedRanges,
    ) {
        let freed = self
            .loans
            .give_back(peer, returned.lease, returned.ranges.as_slice());
        let Some(freed) = freed else {
            self.links[peer.slot()].counters.lines_late += 1;
            return;
        };
        self.links[peer.slot()].counters.returned_by_peer += freed.blocks.len() as u64;
        self.freed(
            now,
            peer,
            returned.lease,
            freed,
            (FreeReason::Returned, LoanEnd::Returned),
        );
    }

    /// Lets the store have blocks of a lease back. Tells the borrower if the lease ended by that.
    fn freed(
        &mut self,
        now: Duration,
        peer: PeerId,
        lease: LeaseId,
        freed: FreedBlocks,
        (reason, end): (FreeReason, LoanEnd),
    ) {
        self.free(freed.blocks, reason);
        if freed.ended {
            self.tell_end(now, peer, lease, end);
        }
    }

    /// Tells a borrower that a lease ended because its last block is gone.
    pub(super) fn tell_end(
        &mut self,
        now: Duration,
        peer: PeerId,
        lease: LeaseId,
        reason: LoanEnd,
    ) {
        self.log(
            peer,
            LendingChange::LoanEnded {
                lease,
                blocks: 0,
                reason,
            },
        );
        let why = match reason {
            LoanEnd::Returned => LeaseEnd::Returned,
            _ => LeaseEnd::Recalled,
        };
        self.send(now, peer, ControlMessage::End(End { lease, why }));
    }

    pub(super) fn held_by_peer(&mut self, now: Duration, peer: PeerId, held: &HeldCounts) {
        for mismatch in self.loans.compare_held(peer, now, held) {
            let message = match mismatch {
                HeldMismatch::Ask(audit) => ControlMessage::Audit(audit),
                HeldMismatch::Unknown(lease) => ControlMessage::End(End {
                    lease,
                    why: LeaseEnd::Unknown,
                }),
            };
            self.send(now, peer, message);
        }
    }

    pub(super) fn claimed(&mut self, now: Duration, peer: PeerId, claim: &Claim) {
        let Some(outcome) = self.loans.claimed(peer, now, claim) else {
            self.links[peer.slot()].counters.lines_late += 1;
            return;
        };
        let (lease, blocks) = (claim.lease, outcome.freed.blocks.len() as u32);
        for ranges in outcome.gone {
            self.send(
                now,
                peer,
                ControlMessage::Recalled(RecalledRanges { lease, ranges }),
            );
        }
        if blocks > 0 {
            self.links[peer.slot()].counters.unclaimed += u64::from(blocks);
            self.log(peer, LendingChange::Unclaimed { lease, blocks });
        }
        self.freed(
            now,
            peer,
            lease,
            outcome.freed,
            (FreeReason::Unclaimed, LoanEnd::Unclaimed),
        );
    }
}
