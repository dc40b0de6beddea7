//! Carries pages from the outbox to lenders, as the daemon's courier does: one connection a lender, messages of many
//! pages, and all that is not answered when the connection ends is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use sublet_lend::ids::{ConnectionId, LeaseId, PeerId, SessionId};
use sublet_lend::wire::{PageSet, WRITES_IN_FLIGHT_MAX};
use sublet_store::{LeaseSlot, OutboundPage, SealTag, SendOutcome};

use super::state::{NodeState, PeerSession};
use crate::cluster::environment::{ClusterEvent, Environment};
use crate::cluster::judges::WaitingRequest;
use crate::cluster::messages::{
    ChannelClass, LentPlace, MessageEnd, PageHello, PageMessage, RequestTag, WriteAnswer,
    WriteRequest,
};
use crate::cluster::mutation::Mutation;
use crate::cluster::network::CloseKind;
use crate::cluster::seal::SealNonce;
use crate::cluster::trace::TraceEvent;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// The most pages of a message.
const BATCH_PAGES_MAX: usize = 32;

/// How long pages gather before they leave.
const GATHER_TIME: VirtualDuration = VirtualDuration::micros(1_000);

/// A lender that answers nothing for so long loses the connection. The node's clock counts.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// The wait before another attempt to connect.
pub(super) const RECONNECT_PAUSE: VirtualDuration = VirtualDuration::micros(100_000);

/// A write that is not answered.
struct UnansweredWrite {
    tag: RequestTag,
    slot: LeaseSlot,
    lease: LeaseId,
    pages: Vec<(OutboundPage, SealTag)>,
}

/// The connection to a lender.
struct WriteChannel {
    connection: ConnectionId,
    session: SessionId,
    tags: u64,
    unanswered: VecDeque<UnansweredWrite>,
    /// Since when the lender has answered nothing, while it had something to answer.
    silent_since: VirtualInstant,
}

/// The courier of a node.
#[derive(Default)]
pub(super) struct Courier {
    channels: BTreeMap<PeerId, WriteChannel>,
    connects_at: BTreeMap<PeerId, VirtualInstant>,
    /// The number of the last connection.
    connections: u64,
    is_due: bool,
}

impl Courier {
    /// Lets pages leave soon.
    fn wake(&mut self, state: &NodeState, env: &mut Environment) {
        if !self.is_due {
            self.is_due = true;
            env.after(GATHER_TIME, ClusterEvent::Carry(state.run));
        }
    }

    /// Lets pages leave soon, if any wait.
    pub(super) fn wake_if_waiting(&mut self, state: &NodeState, env: &mut Environment) {
        if !self.is_due && self.has_waiting(state) {
            self.wake(state, env);
        }
    }

    /// Takes pages out of the outbox and sends them. Those of lenders without a session, and of leases that have ended,
    /// are lost.
    pub(super) fn carry(&mut self, state: &mut NodeState, env: &mut Environment) {
        self.is_due = false;
        let slots = state.routes.all();
        let lenders = slots.iter().filter_map(|slot| state.routes.find(*slot));
        let lenders: BTreeSet<PeerId> = lenders.map(|route| route.lender).collect();
        for lender in lenders {
            match state.sessions.get(&lender).copied() {
                Some(session) => self.carry_to(state, env, (lender, session)),
                None => {
                    for slot in state.routes.of(lender) {
                        lose_waiting(state, env, slot);
                    }
                }
            }
        }
        for slot in state.routes.ended() {
            lose_waiting(state, env, slot);
            if state.memory.store.lease_figures(slot).outbound == 0 {
                state.routes.forget_ended(slot);
            }
        }
        if self.has_waiting(state) {
            self.wake(state, env);
        }
    }

    /// Returns whether pages wait in the outbox that are not on their way, or may do so for a lease that has ended.
    fn has_waiting(&self, state: &NodeState) -> bool {
        let slots = state.routes.all().into_iter();
        let outbound = slots.map(|slot| state.memory.store.lease_figures(slot).outbound);
        let outbound: u32 = outbound.sum();
        let under_way = self
            .channels
            .values()
            .flat_map(|channel| &channel.unanswered);
        let under_way: usize = under_way.map(|write| write.pages.len()).sum();
        outbound as usize > under_way || state.routes.has_ended()
    }

    fn carry_to(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        (lender, session): (PeerId, PeerSession),
    ) {
        let is_old = |channel: &WriteChannel| channel.session != session.ours;
        if self.channels.get(&lender).is_some_and(is_old) {
            self.disconnect(state, env, lender);
        }
        let may_connect = self
            .connects_at
            .get(&lender)
            .is_none_or(|at| env.now >= *at);
        if !self.channels.contains_key(&lender) && may_connect {
            self.connect(state, env, (lender, session));
        }
        let Some(channel) = self.channels.get_mut(&lender) else {
            return;
        };
        for slot in state.routes.of(lender) {
            if channel.unanswered.len() < WRITES_IN_FLIGHT_MAX {
                channel.send(state, env, slot);
            }
        }
    }

    fn connect(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        (lender, session): (PeerId, PeerSession),
    ) {
        let connection = env.open([state.run, session.peer_run], ChannelClass::Write);
        self.connections += 1;
        let hello = PageHello {
            class: ChannelClass::Write,
            session: session.theirs,
            number: self.connections,
            lender: session.incarnation,
        };
        env.send_pages(state.run, connection, PageMessage::Hello(hello));
        let channel = WriteChannel {
            connection,
            session: session.ours,
            tags: 0,
            unanswered: VecDeque::new(),
            silent_since: env.now,
        };
        self.channels.insert(lender, channel);
    }

    /// Takes an answer.
    pub(super) fn answered(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        connection: ConnectionId,
        done: WriteAnswer,
    ) {
        let Some((lender, channel)) = self.channel_of(connection) else {
            return;
        };
        let is_next = |write: &UnansweredWrite| write.tag == done.tag;
        if !channel.unanswered.front().is_some_and(is_next) {
            return;
        }
        let Some(write) = channel.unanswered.pop_front() else {
            return;
        };
        channel.silent_since = env.now;
        let taken = done.answer.pages();
        env.note(
            state.node(),
            TraceEvent::WriteDone(state.member(lender), taken.len()),
        );
        settle(state, env, write.pages, taken);
    }

    /// Ends the connection to a lender, if there is one.
    pub(super) fn disconnect(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        lender: PeerId,
    ) {
        if let Some(channel) = self.channels.remove(&lender) {
            env.close(state.run, channel.connection, CloseKind::Abort);
            self.connects_at.insert(lender, env.now + RECONNECT_PAUSE);
            lose_unanswered(state, env, lender, channel.unanswered);
        }
    }

    /// A connection is over.
    pub(super) fn ended(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        connection: ConnectionId,
    ) {
        if let Some((lender, _)) = self.channel_of(connection) {
            self.disconnect(state, env, lender);
        }
    }

    /// Gives connections up whose lenders are silent. Then nothing waits for longer than it may.
    pub(super) fn look(&mut self, state: &mut NodeState, env: &mut Environment) {
        let span = state.clock.true_span(SILENCE_MAX);
        let is_silent = |channel: &WriteChannel| {
            !channel.unanswered.is_empty() && env.now > channel.silent_since + span
        };
        let silent = self
            .channels
            .iter()
            .filter(|(_, channel)| is_silent(channel));
        let silent: Vec<PeerId> = silent.map(|(lender, _)| *lender).collect();
        for lender in silent {
            self.disconnect(state, env, lender);
        }
        for channel in self.channels.values() {
            if !channel.unanswered.is_empty() {
                let waiting = WaitingRequest {
                    what: "a write",
                    until: channel.silent_since + span,
                    awake_since: state.stopped_until,
                };
                let finding = waiting.check(env.now);
                env.judge(state.node(), finding);
            }
        }
    }

    fn channel_of(&mut self, connection: ConnectionId) -> Option<(PeerId, &mut WriteChannel)> {
        let mut channels = self.channels.iter_mut();
        let found = channels.find(|(_, channel)| channel.connection == connection);
        found.map(|(lender, channel)| (*lender, channel))
    }
}

impl WriteChannel {
    /// Sends pages of a lease, if any wait.
    fn send(&mut self, state: &NodeState, env: &mut Environment, slot: LeaseSlot) {
        let Some(route) = state.routes.find(slot) else {
            return;
        };
        let (mut pages, mut sealed, mut nonces) = (Vec::new(), Vec::new(), Vec::new());
        let worker = &state.memory.worker;
        worker.take_outbound(slot, BATCH_PAGES_MAX, |page, bytes| {
            let nonce = SealNonce::of(page.address, page.sequence, env.mutation);
            let plain = super::memory::stamp_of(bytes).unwrap_or_default();
            let (bytes, tag) = route.key.seal(nonce, plain);
            let place = LentPlace {
                index: page.address.index,
                place: page.address.place,
            };
            nonces.push(nonce);
            sealed.push((place, bytes));
            pages.push((page, tag));
        });
        if pages.is_empty() {
            return;
        }
        for nonce in nonces {
            let finding = env.judges.seal.sealed(route.key, nonce);
            env.judge(state.node(), finding);
        }
        self.tags += 1;
        let tag = RequestTag(self.tags);
        if self.unanswered.is_empty() {
            self.silent_since = env.now;
        }
        env.note(
            state.node(),
            TraceEvent::Writes(state.member(route.lender), pages.len()),
        );
        let request = WriteRequest {
            tag,
            lease: route.lease,
            pages: sealed,
            ends: MessageEnd::Whole,
        };
        self.unanswered.push_back(UnansweredWrite {
            tag,
            slot,
            lease: route.lease,
            pages,
        });
        env.send_pages(state.run, self.connection, PageMessage::Write(request));
    }
}

/// Settles pages of which the lender took some.
fn settle(
    state: &NodeState,
    env: &mut Environment,
    pages: Vec<(OutboundPage, SealTag)>,
    taken: PageSet,
) {
    for (ordinal, (page, tag)) in pages.into_iter().enumerate() {
        let outcome = match taken.contains(ordinal) {
            true => {
                env.tally.sent += 1;
                SendOutcome::Taken(tag)
            }
            false => {
                env.tally.sent_lost += 1;
                SendOutcome::Lost
            }
        };
        state.memory.worker.settle(page, outcome);
    }
}

/// Settles writes whose connection is over as lost. The lender may have them, or may get them later.
fn lose_unanswered(
    state: &mut NodeState,
    env: &mut Environment,
    lender: PeerId,
    unanswered: VecDeque<UnansweredWrite>,
) {
    let pages: usize = unanswered.iter().map(|write| write.pages.len()).sum();
    if pages > 0 {
        env.note(
            state.node(),
            TraceEvent::WritesLost(state.member(lender), pages),
        );
    }
    if env.leaves_out(Mutation::UnansweredForgotten) {
        return;
    }
    for write in unanswered {
        if env.leaves_out(Mutation::LateDoneBelieved) {
            settle(state, env, write.pages, PageSet(u64::MAX));
            continue;
        }
        let route = state.routes.find_mut(write.slot);
        if let Some(route) = route.filter(|route| route.lease == write.lease) {
            for (page, _) in &write.pages {
                route.lost_write(page.address);
            }
        }
        settle(state, env, write.pages, PageSet::default());
    }
}

/// Takes pages that wait for a lease out of the outbox, and settles them as lost.
fn lose_waiting(state: &NodeState, env: &mut Environment, slot: LeaseSlot) {
    let mut lost = Vec::new();
    let worker = &state.memory.worker;
    worker.take_outbound(slot, BATCH_PAGES_MAX, |page, _| lost.push(page));
    for page in lost {
        env.tally.sent_lost += 1;
        worker.settle(page, SendOutcome::Lost);
    }
}
