//! Whom a borrower asks if it has no connection with each member: those that it was advised to ask, or, without advice,
//! the freer of two that it draws.

use std::time::Duration;

use super::link::{LinkState, Membership, PeerIntent};
use super::machine::LendingNode;
use super::member_view::Listing;
use super::on_demand::{DrawnMembers, LenderWish};
use crate::control::{BlockCount, Borrow, ControlMessage};
use crate::ids::PeerId;

/// A lender that cannot be reached within this time is not asked.
const WISH_FOR: Duration = Duration::from_secs(5);

/// The answers that are there after this time must do.
const DRAWN_FOR: Duration = Duration::from_secs(3);

/// How often members are drawn.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// How many members are drawn.
const DRAWN: usize = 2;

/// The most draws for them. The first half must hit members that take part by the leader's list.
const DRAWS_MAX: usize = 32;

/// The most lenders that are to be asked.
const WISHES_MAX: usize = 64;

/// What became of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdviceOutcome {
    /// The lender is asked.
    Followed,
    /// Nothing is wanted any more.
    Unneeded,
    /// The lender refused a moment ago, or cannot be asked.
    Impossible,
}

impl LendingNode {
    /// What this node wants beyond what it has and has asked for, in blocks.
    pub(super) fn lacking(&self) -> u32 {
        let has = self.borrows.borrowed().saturating_add(self.borrows.asked());
        self.wanted.saturating_sub(has)
    }

    /// Returns whether this node wants to borrow more, and may.
    pub fn seeks_lenders(&self) -> bool {
        self.lacking_of_others() > 0
    }

    /// What may be asked of others now.
    fn lacking_of_others(&self) -> u32 {
        if self.phase.goes() || !self.roles.may_ask() {
            return 0;
        }
        self.lacking()
    }

    /// Asks a lender as soon as there is a connection with it.
    pub(super) fn wish_for(&mut self, now: Duration, lender: PeerId, blocks: u32) -> AdviceOutcome {
        if self.lacking_of_others() == 0 || blocks == 0 {
            return AdviceOutcome::Unneeded;
        }
        if !self.can_be_asked(now, lender) {
            return AdviceOutcome::Impossible;
        }
        let Some(part) = &mut self.on_demand else {
            return AdviceOutcome::Impossible;
        };
        let wishes = &mut part.search.wishes;
        if wishes.len() == WISHES_MAX && !wishes.contains_key(&lender) {
            return AdviceOutcome::Impossible;
        }
        // Advice that comes again gives a lender that is not reached no more time.
        let before = wishes.get(&lender).map(|wish| wish.until);
        let until = before.unwrap_or(now + WISH_FOR);
        wishes.insert(lender, LenderWish { blocks, until });
        self.wake(lender);
        AdviceOutcome::Followed
    }

    fn can_be_asked(&self, now: Duration, lender: PeerId) -> bool {
        let link = &self.links[lender.slot()];
        let is_reachable = match link.state {
            LinkState::Away { retry_at } => retry_at < now + WISH_FOR,
            LinkState::Connecting | LinkState::Greeting { .. } | LinkState::Up { .. } => true,
            LinkState::Incompatible { .. } | LinkState::Shut { .. } | LinkState::Denied => false,
        };
        is_reachable
            && link.membership == Membership::Member
            && link.session.intent == PeerIntent::Stays
            && self.borrows.may_ask(lender, now)
    }

    /// Asks lenders with which there is a connection now.
    pub(super) fn ask_wished(&mut self, now: Duration) {
        let mut left = self.lacking_of_others();
        let Some(part) = &mut self.on_demand else {
            return;
        };
        if left == 0 {
            return part.search.stop();
        }
        if part.search.wishes.is_empty() {
            return;
        }
        let wishes = std::mem::take(&mut part.search.wishes);
        for (lender, wish) in wishes {
            let is_up = self.links[lender.slot()].is_up();
            let is_open = now < wish.until && self.can_be_asked(now, lender);
            if left > 0 && is_open && is_up {
                let blocks = BlockCount::saturating(wish.blocks.min(left));
                left -= blocks.get();
                self.borrows.ask(lender, blocks.get());
                // From now on silence counts sooner. It counts from now on.
                self.links[lender.slot()].session.silence = Duration::ZERO;
                self.send(now, lender, ControlMessage::Borrow(Borrow { blocks }));
            } else if left > 0 && is_open {
                if let Some(part) = &mut self.on_demand {
                    part.search.wishes.insert(lender, wish);
                }
            } else if !is_open && !is_up {
                self.not_reached(now, lender);
            }
        }
    }

    /// A lender was to be asked and could not be reached. It is left alone for a while, and others are drawn.
    fn not_reached(&mut self, now: Duration, lender: PeerId) {
        if self.borrows.may_ask(lender, now) {
            self.borrows.not_reached(lender, now);
        }
        self.look_for_others(now);
    }

    /// Draws members if there is nobody to advise, and asks the freer one when both have said what they can lend.
    pub(super) fn tick_search(&mut self, now: Duration) {
        if self.lacking_of_others() == 0 {
            return;
        }
        self.choose_of_drawn(now);
        let lacks_leader = self.lacks_leader(now);
        let Some(part) = &self.on_demand else {
            return;
        };
        let search = &part.search;
        let is_due = now >= search.draw_at && search.drawn.is_none() && search.wishes.is_empty();
        let is_unadvised = lacks_leader || now < search.unadvised_until;
        if is_due && is_unadvised {
            self.draw_members(now);
        }
    }

    fn draw_members(&mut self, now: Duration) {
        let members = self.links.len();
        let mut peers: Vec<PeerId> = Vec::new();
        for n in 0..DRAWS_MAX {
            let Some(part) = &mut self.on_demand else {
                return;
            };
            // The settings bound the number of members.
            let peer = PeerId(part.draws.below(members) as u16);
            if members == 0 || peers.contains(&peer) || !self.can_be_asked(now, peer) {
                continue;
            }
            if n >= DRAWS_MAX / 2 || self.listing(peer) != Listing::Absent {
                peers.push(peer);
            }
            if peers.len() == DRAWN {
                break;
            }
        }
        peers.iter().for_each(|peer| self.wake(*peer));
        if let Some(part) = &mut self.on_demand {
            part.search.draw_at = now + DRAW_EVERY;
            part.search.draws_made += 1;
            let until = now + DRAWN_FOR;
            part.search.drawn = (!peers.is_empty()).then_some(DrawnMembers { peers, until });
        }
    }

    /// A connection could not be made. A member that was drawn is not waited for, and is left alone for a while.
    pub(super) fn drawn_not_reached(&mut self, now: Duration, peer: PeerId) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let Some(drawn) = &mut part.search.drawn else {
            return;
        };
        let before = drawn.peers.len();
        drawn.peers.retain(|drawn| *drawn != peer);
        if drawn.peers.len() < before {
            self.borrows.not_reached(peer, now);
        }
    }

    fn listing(&self, peer: PeerId) -> Listing {
        let name = &self.links[peer.slot()].name;
        let part = self.on_demand.as_ref();
        part.map_or(Listing::Unknown, |part| part.view.listing(name))
    }

    fn choose_of_drawn(&mut self, now: Duration) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let Some(drawn) = part.search.drawn.take() else {
            return;
        };
        let answers = drawn.peers.iter().filter_map(|peer| {
            let link = &self.links[peer.slot()];
            let has_reported = link.is_up() && link.session.report_at.is_some();
            has_reported.then_some((link.session.report.lendable.get(), *peer))
        });
        let answers: Vec<(u32, PeerId)> = answers.collect();
        if answers.len() < drawn.peers.len() && now < drawn.until {
            part.search.drawn = Some(drawn);
            return;
        }
        let freer = answers.into_iter().max().filter(|(blocks, _)| *blocks > 0);
        if let Some((blocks, lender)) = freer {
            self.wish_for(now, lender, blocks.min(self.lacking()));
        }
    }
}
