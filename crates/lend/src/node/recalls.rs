//! Taking lent blocks back: at once, with notice, for a drain, and to leave.

use std::time::Duration;

use super::action::{FreeReason, LendingAction};
use super::event::{LendingChange, LoanEnd, RecallReason};
use super::link::{LinkState, Notice, NoticeStage};
use super::machine::LendingNode;
use super::roles::{HYSTERESIS_BLOCKS, ROLE_PAUSE};
use super::settings::LeaderNaming;
use super::status::LendingPhase;
use crate::control::{
    BlockCount, ByeReason, ControlMessage, NoticeMillis, RecallNotice, RecalledRanges,
};
use crate::ids::{LentBlock, PeerId, Term};

/// How often the store is asked for lent blocks while the node wants memory.
const TAKE_EVERY: Duration = Duration::from_secs(1);

impl LendingNode {
    /// Marks blocks gone that the store took, and tells their borrowers. Nobody is waited for.
    pub(super) fn blocks_taken(
        &mut self,
        now: Duration,
        blocks: &[LentBlock],
        reason: RecallReason,
    ) {
        if matches!(reason, RecallReason::Host | RecallReason::Wanted) {
            self.roles.needed(now);
        }
        for taken in self.loans.mark_taken(blocks) {
            let (peer, lease) = (taken.peer, taken.lease);
            self.links[peer.slot()].counters.recalled += u64::from(taken.count);
            self.log(
                peer,
                LendingChange::Recalled {
                    lease,
                    blocks: taken.count,
                    reason,
                },
            );
            for ranges in taken.ranges {
                self.send(
                    now,
                    peer,
                    ControlMessage::Recalled(RecalledRanges { lease, ranges }),
                );
            }
            if taken.ended {
                self.tell_end(now, peer, lease, LoanEnd::Recalled);
            }
        }
    }

    /// Takes own loans back while the node wants memory. It does so before it asks others.
    pub(super) fn take_back_for_want(&mut self, now: Duration, wanted: u32) {
        let is_due = self.take_asked_at.is_none_or(|at| now >= at + TAKE_EVERY);
        let lent = self.loans.lent();
        if self.roles.wants() && lent > 0 && is_due {
            self.take_asked_at = Some(now);
            let blocks = lent.min(wanted.saturating_add(HYSTERESIS_BLOCKS));
            self.actions.push(LendingAction::TakeLent {
                blocks,
                reason: RecallReason::Wanted,
            });
        }
    }

    /// Asks borrowers for blocks back, from each its part of what is lent.
    pub(super) fn recall(&mut self, now: Duration, blocks: u32, within: Duration) {
        let lent = u64::from(self.loans.lent());
        for peer in self.peers() {
            let part = u64::from(blocks) * u64::from(self.loans.lent_to(peer));
            let part = part.checked_div(lent).map_or(0, |_| part.div_ceil(lent));
            let part = u32::try_from(part).unwrap_or(u32::MAX);
            self.recall_from(now, peer, part, (within, RecallReason::Operator));
        }
    }

    fn recall_from(
        &mut self,
        now: Duration,
        peer: PeerId,
        blocks: u32,
        (within, reason): (Duration, RecallReason),
    ) {
        let lent = self.loans.lent_to(peer);
        let link = &mut self.links[peer.slot()];
        let before = link.notice.map_or(lent, |notice| notice.keep.min(lent));
        let keep = before.saturating_sub(blocks);
        let until = now + within;
        if keep == lent {
            return;
        }
        let until = link.notice.map_or(until, |notice| notice.until.min(until));
        link.notice = Some(Notice {
            keep,
            until,
            stage: NoticeStage::Waiting,
        });
        self.log(
            peer,
            LendingChange::RecallAsked {
                blocks: before - keep,
                reason,
            },
        );
        self.tell_notice(now, peer, before - keep);
    }

    fn tell_notice(&mut self, now: Duration, peer: PeerId, blocks: u32) {
        let Some(notice) = self.links[peer.slot()].notice.filter(|_| blocks > 0) else {
            return;
        };
        let within_ms = NoticeMillis::saturating(notice.until.saturating_sub(now).as_millis());
        let blocks = BlockCount::saturating(blocks);
        self.send(
            now,
            peer,
            ControlMessage::Recall(RecallNotice { blocks, within_ms }),
        );
    }

    /// Repeats a notice on a new connection, or begins that of a drain.
    pub(super) fn remind_of_notice(&mut self, now: Duration, peer: PeerId) {
        let lent = self.loans.lent_to(peer);
        match (self.links[peer.slot()].notice, self.phase) {
            (Some(notice), _) => self.tell_notice(now, peer, lent.saturating_sub(notice.keep)),
            (None, LendingPhase::Draining { until }) => {
                let within = until.saturating_sub(now);
                self.recall_from(now, peer, lent, (within, RecallReason::Drain));
            }
            (None, _) => {}
        }
    }

    /// Ends notices that were followed, and asks for the heats of what was not returned in time.
    pub(super) fn tick_notices(&mut self, now: Duration) {
        for peer in self.awake_peers() {
            let lent = self.loans.lent_to(peer);
            let Some(notice) = &mut self.links[peer.slot()].notice else {
                continue;
            };
            if lent <= notice.keep {
                self.links[peer.slot()].notice = None;
            } else if now >= notice.until && notice.stage == NoticeStage::Waiting {
                notice.stage = NoticeStage::Ranking;
                self.actions.push(LendingAction::ReportHeats { peer });
            }
        }
    }

    /// Takes what a borrower did not return in time, coldest first. Blocks without a heat go last.
    pub(super) fn heats(&mut self, now: Duration, peer: PeerId, heats: &[(LentBlock, u64)]) {
        let Some(notice) = self.links[peer.slot()]
            .notice
            .take_if(|notice| notice.stage == NoticeStage::Ranking)
        else {
            return;
        };
        let missing = self.loans.lent_to(peer).saturating_sub(notice.keep);
        let mut ranked = heats.to_vec();
        ranked.extend(self.loans.blocks_of(peer).map(|block| (block, u64::MAX)));
        let blocks = self.loans.coldest(peer, missing, &ranked);
        self.blocks_taken(now, &blocks, RecallReason::NoticeOver);
        self.free(blocks, FreeReason::NoticeOver);
    }

    pub(super) fn drain(&mut self, now: Duration, within: Duration) {
        if !matches!(
            self.phase,
            LendingPhase::Lending | LendingPhase::Paused { .. }
        ) {
            return;
        }
        self.phase = LendingPhase::Draining {
            until: now + within,
        };
        self.recall_all(now, within, RecallReason::Drain);
    }

    fn recall_all(&mut self, now: Duration, within: Duration, reason: RecallReason) {
        for peer in self.peers() {
            let lent = self.loans.lent_to(peer);
            self.recall_from(now, peer, lent, (within, reason));
        }
    }

    pub(super) fn resume(&mut self) {
        if matches!(
            self.phase,
            LendingPhase::Draining { .. } | LendingPhase::Paused { .. }
        ) {
            self.phase = LendingPhase::Lending;
            for link in &mut self.links {
                link.notice = None;
            }
        }
    }

    pub(super) fn recall_now(&mut self, now: Duration) {
        if matches!(
            self.phase,
            LendingPhase::Lending | LendingPhase::Paused { .. }
        ) {
            self.phase = LendingPhase::Paused {
                until: now + ROLE_PAUSE,
            };
        }
        let blocks = self.loans.lent();
        if blocks > 0 {
            self.actions.push(LendingAction::TakeLent {
                blocks,
                reason: RecallReason::Operator,
            });
        }
    }

    pub(super) fn leave(&mut self, now: Duration, within: Duration) {
        match &mut self.phase {
            LendingPhase::Left => return,
            // Whoever says it again may have less time.
            LendingPhase::Leaving { until } => {
                *until = (*until).min(now + within);
                return;
            }
            _ => {}
        }
        self.phase = LendingPhase::Leaving {
            until: now + within,
        };
        for peer in self
            .peers()
            .filter(|peer| self.links[peer.slot()].is_up())
            .collect::<Vec<_>>()
        {
            self.send(now, peer, ControlMessage::Leave);
            self.return_all(now, peer);
        }
        self.recall_all(now, within, RecallReason::Leaving);
    }

    /// Takes part again. A node that has not parted yet parts first: its peers count on nothing of it any more.
    pub(super) fn join(&mut self, now: Duration) {
        if !self.phase.goes() {
            return;
        }
        if self.phase != LendingPhase::Left {
            self.part_from_all(now);
        }
        self.phase = LendingPhase::Lending;
        for link in &mut self.links {
            link.notice = None;
            if let LinkState::Away { .. } = link.state {
                link.failures = 0;
                link.state = LinkState::Away { retry_at: now };
            }
        }
        if let Some(part) = &mut self.on_demand {
            part.ledger = None;
            part.leader.heard_at = now;
            if part.settings.leader == LeaderNaming::Elected {
                // The host registers anew, and is told who leads. Terms may be lower: etcd may have been restored.
                part.leader.name = None;
                part.leader.elected = Term::default();
                part.leader.told = Term::default();
            }
        }
        self.find_leader(now);
    }

    /// Ends a pause, and parts from all when everything is back or the time is over.
    pub(super) fn tick_phase(&mut self, now: Duration) {
        match self.phase {
            LendingPhase::Paused { until } if now >= until => self.phase = LendingPhase::Lending,
            LendingPhase::Leaving { until } => {
                let is_done = self.loans.lent() == 0 && self.borrows.borrowed() == 0;
                if is_done || now >= until {
                    self.part_from_all(now);
                }
            }
            _ => {}
        }
    }

    fn part_from_all(&mut self, now: Duration) {
        for peer in self.peers() {
            let next = match self.links[peer.slot()].state {
                LinkState::Denied => LinkState::Denied,
                _ => LinkState::Away {
                    retry_at: Duration::MAX,
                },
            };
            self.part(now, peer, ByeReason::Leaving, next);
        }
        self.phase = LendingPhase::Left;
        self.actions.push(LendingAction::Left);
    }
}
