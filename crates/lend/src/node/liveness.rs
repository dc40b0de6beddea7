//! Signs of life: pings, reports, silence, and new attempts to connect.

use std::time::Duration;

use super::action::LendingAction;
use super::event::LinkLoss;
use super::link::{LinkState, SentPing};
use super::links::HELLO_WITHIN;
use super::machine::LendingNode;
use crate::control::{ControlMessage, Ping, Pong};
use crate::ids::PeerId;

/// How soon silence is noticed.
#[derive(Clone, Copy, Debug)]
struct Watchfulness {
    /// A node that has said nothing for so long sends a ping.
    ping_after: Duration,
    /// A peer that says nothing for so long is lost.
    silence_max: Duration,
}

/// Where pages may be at stake. Each end that counts a lease pings, and the other one answers.
const WATCHFUL: Watchfulness = Watchfulness {
    ping_after: Duration::from_millis(250),
    silence_max: Duration::from_secs(1),
};

/// Between a leader and who follows it, and where there is no lease any more.
const RELAXED: Watchfulness = Watchfulness {
    ping_after: Duration::from_secs(1),
    silence_max: Duration::from_secs(3),
};

/// A node pings a peer at least so often, also if it has answered pings meanwhile. What it holds of the peer's leases
/// travels in its own pings alone.
const PING_AT_LEAST_EVERY: Duration = Duration::from_secs(4);

/// How often a node reports its figures.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl LendingNode {
    pub(super) fn tick_link(&mut self, now: Duration, passed: Duration, peer: PeerId) {
        let link = &mut self.links[peer.slot()];
        match link.state {
            LinkState::Away { retry_at } | LinkState::Incompatible { retry_at, .. }
                if now >= retry_at =>
            {
                self.dial(peer);
            }
            LinkState::Shut { until, .. } if now >= until => {
                link.state = LinkState::Away { retry_at: now }
            }
            LinkState::Greeting { since, .. } if now >= since + HELLO_WITHIN => {
                self.lose(now, peer, LinkLoss::NoHello);
            }
            LinkState::Up { .. } => self.tick_session(now, passed, peer),
            _ => {}
        }
    }

    fn dial(&mut self, peer: PeerId) {
        if self.opens_link(peer) && !self.phase.goes() {
            self.links[peer.slot()].state = LinkState::Connecting;
            self.actions.push(LendingAction::Connect { peer });
        }
    }

    fn tick_session(&mut self, now: Duration, passed: Duration, peer: PeerId) {
        let session = &mut self.links[peer.slot()].session;
        session.silence += passed;
        session.quiet += passed;
        session.since_ping += passed;
        session.since_report += passed;
        let since_ping = session.since_ping;
        let (quiet, since_report) = (session.quiet, session.since_report);
        let silence = session.silence;
        let watch = match self.on_demand.is_none() || self.has_business(peer) {
            true => WATCHFUL,
            false => RELAXED,
        };
        if silence >= watch.silence_max {
            return self.lose(now, peer, LinkLoss::Silent);
        }
        if self.is_idle(now, peer) {
            return self.end_idle(now, peer);
        }
        if since_report >= REPORT_EVERY {
            self.report_regularly(now, peer);
        }
        if quiet >= watch.ping_after || since_ping >= PING_AT_LEAST_EVERY {
            self.ping(now, peer);
        }
    }

    pub(super) fn ping(&mut self, now: Duration, peer: PeerId) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let held = self.borrows.held_of(peer);
        let session = &mut self.links[peer.slot()].session;
        session.ping = Some(SentPing { tag, at: now });
        session.since_ping = Duration::ZERO;
        self.send(now, peer, ControlMessage::Ping(Ping { tag, held }));
    }

    pub(super) fn pong(&mut self, now: Duration, peer: PeerId, pong: Pong) {
        let session = &mut self.links[peer.slot()].session;
        if let Some(ping) = session.ping.take_if(|ping| ping.tag == pong.tag) {
            session.round_trip = Some(now.saturating_sub(ping.at));
        }
    }

    /// Reports what has a use: to the leader all, and to who may borrow what has changed.
    fn report_regularly(&mut self, now: Duration, peer: PeerId) {
        if self.on_demand.is_none() {
            return self.report(now, peer);
        }
        if self.is_followed(peer) {
            return self.report_to_leader(now, peer);
        }
        let session = &mut self.links[peer.slot()].session;
        session.since_report = Duration::ZERO;
        let reported = session.reported;
        let is_follower = self.ledger().is_some() && !self.has_business(peer);
        if !is_follower && reported != Some(self.report_for(now, peer)) {
            self.report(now, peer);
        }
    }

    pub(super) fn report(&mut self, now: Duration, peer: PeerId) {
        let report = self.report_for(now, peer);
        let session = &mut self.links[peer.slot()].session;
        session.since_report = Duration::ZERO;
        session.reported = Some(report);
        self.send(now, peer, ControlMessage::Report(report));
    }
}
