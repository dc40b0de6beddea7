//! The thread that drives the node: it waits for sockets, commands and time, and carries out what the node wants.

mod actions;
mod sockets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Poll, Token};
use sublet_frontends::tenancy::Clock;
use sublet_lend::ids::{ConnectionId, PeerId};
use sublet_lend::node::{LendingAction, LendingInput, RecallReason, TICK_EVERY};
use sublet_tls::peer::{Fingerprint, PeerCredentials};

use super::connection::ControlConnection;
use super::dialer::Dialer;
use super::members::ChangedMembers;
use super::newcomers::Newcomers;
use super::notices::{PeerNotice, PeerObserver, ServePageConnections};
use super::peer_tables::PeerTables;
use super::refusals::{RefusalNews, RefusedParty};
use super::sessions::OwnRun;
use super::settings::LISTENERS_MAX;
use super::store_work::StoreWork;
use crate::peers::page_faults::{CountedFaults, FaultParty};
use crate::peers::page_fetcher::FetchNews;

/// The token of the waker.
pub(super) const WAKER: Token = Token(usize::MAX);

/// The number of the first connection.
pub(super) const FIRST_CONNECTION: ConnectionId = ConnectionId(LISTENERS_MAX as u64);

/// The most events that one wait returns.
const EVENTS_MAX: usize = 256;

/// How often the node's want of memory is measured.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// What the rest of the daemon asks of the thread.
pub(super) enum ControlCommand {
    /// Take something in.
    Take(LendingInput),
    /// Take in who the members are now.
    ChangeMembers(ChangedMembers),
    /// Use other credentials, and deny what they deny.
    Renew(Arc<PeerCredentials>),
    /// Say that all commands before this one were carried out.
    Confirm(SyncSender<()>),
    /// End.
    Stop,
}

/// Whether the thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    Active,
    Stopped,
}

/// All that the thread has.
pub(super) struct ControlThread {
    pub(super) poll: Poll,
    pub(super) commands: Receiver<ControlCommand>,
    pub(super) listeners: Vec<TcpListener>,
    pub(super) own: OwnRun,
    pub(super) credentials: Arc<PeerCredentials>,
    pub(super) tables: Arc<PeerTables>,
    pub(super) store: StoreWork,
    pub(super) clock: Clock,
    pub(super) observer: Box<dyn PeerObserver>,
    pub(super) pages: Box<dyn ServePageConnections>,
    pub(super) dialer: Dialer,
    pub(super) sockets: ControlSockets,
    /// What happened and the node was not told yet.
    pub(super) inputs: VecDeque<LendingInput>,
    pub(super) times: ControlTimes,
}

/// The sockets beside those that listen.
pub(super) struct ControlSockets {
    pub(super) newcomers: Newcomers,
    pub(super) connections: BTreeMap<ConnectionId, ControlConnection>,
    pub(super) next: ConnectionId,
    /// Sockets that may have more than their last turn took. The kernel reports only what is new.
    pub(super) due: BTreeSet<Token>,
    /// Members whose certificates were put on the deny list while they were connected.
    pub(super) denied: BTreeMap<PeerId, Fingerprint>,
    /// Members that were not reached, and of which that was said.
    pub(super) unreachable: BTreeSet<PeerId>,
}

impl Default for ControlSockets {
    fn default() -> ControlSockets {
        ControlSockets {
            newcomers: Newcomers::default(),
            connections: BTreeMap::new(),
            next: FIRST_CONNECTION,
            due: BTreeSet::new(),
            denied: BTreeMap::new(),
            unreachable: BTreeSet::new(),
        }
    }
}

impl ControlSockets {
    /// Lets a connection have another turn.
    pub(super) fn make_due(&mut self, id: ConnectionId) {
        self.due.insert(Token(id.0 as usize));
    }
}

/// What was done when.
#[derive(Clone, Copy, Default)]
pub(super) struct ControlTimes {
    ticked_at: Option<Duration>,
    measured_at: Option<Duration>,
}

impl ControlThread {
    /// Works until the thread is told to stop, or the kernel fails.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while self.apply_commands() == ThreadState::Active {
            self.follow_time();
            match self.poll.poll(&mut events, Some(self.longest_wait())) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            // Each has one turn, and then commands and time have theirs, however much a peer sends.
            let ready = events.iter().map(|event| event.token());
            self.sockets
                .due
                .extend(ready.filter(|token| *token != WAKER));
            self.serve_due();
            self.connect_found();
            self.settle();
        }
        Ok(())
    }

    /// The time since the clock was started.
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.moment().0)
    }

    fn longest_wait(&self) -> Duration {
        if !self.sockets.due.is_empty() {
            return Duration::ZERO;
        }
        let now = self.now();
        let ticks_at = self.times.ticked_at.map_or(now, |at| at + TICK_EVERY);
        // A millisecond at least, because the kernel counts in those.
        let wait = ticks_at.saturating_sub(now);
        wait.clamp(Duration::from_millis(1), TICK_EVERY)
    }

    fn apply_commands(&mut self) -> ThreadState {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                ControlCommand::Take(input) => self.inputs.push_back(input),
                ControlCommand::ChangeMembers(changed) => self.change_members(changed),
                ControlCommand::Renew(credentials) => self.renew(credentials),
                ControlCommand::Confirm(told) => {
                    // Nobody may wait for it any more.
                    let _ = told.try_send(());
                }
                ControlCommand::Stop => return ThreadState::Stopped,
            }
            self.settle();
        }
        ThreadState::Active
    }

    /// Takes in who the members are now. The node numbers those that are new. One that it refuses has no number.
    fn change_members(&mut self, changed: ChangedMembers) {
        let now = self.now();
        let change = LendingInput::Members(changed.change());
        self.tables.node.write().handle(now, change);
        for member in changed.added {
            let peer = self.tables.node.read().peer_named(&member.name);
            if let Some(peer) = peer {
                self.tables.members.set(peer, member);
            }
        }
    }

    /// Uses other credentials. Peers that they deny lose their leases now. Peers that they deny no more come back.
    fn renew(&mut self, credentials: Arc<PeerCredentials>) {
        self.credentials = credentials;
        for connection in self.sockets.connections.values() {
            let Some(known) = connection.peer() else {
                continue;
            };
            let peer = self.tables.node.read().peer_named(&known.identity.node);
            if let Some(peer) = peer.filter(|_| self.credentials.denies(&known.fingerprint)) {
                self.sockets.denied.insert(peer, known.fingerprint);
                self.inputs.push_back(LendingInput::Deny { peer });
            }
        }
        let (credentials, inputs) = (&self.credentials, &mut self.inputs);
        self.sockets.denied.retain(|peer, fingerprint| {
            let is_denied = credentials.denies(fingerprint);
            if !is_denied {
                inputs.push_back(LendingInput::Allow { peer: *peer });
            }
            is_denied
        });
    }

    /// Does what is due by now.
    fn follow_time(&mut self) {
        let now = self.now();
        let is_due = |at: Option<Duration>, pause| at.is_none_or(|at| now >= at + pause);
        if !is_due(self.times.ticked_at, TICK_EVERY) {
            return;
        }
        self.times.ticked_at = Some(now);
        self.inputs
            .extend(self.store.taken_back(RecallReason::Host));
        self.inputs.extend(self.store.returned());
        self.inputs.push_back(self.store.lendable());
        if is_due(self.times.measured_at, MEASURE_EVERY) {
            self.times.measured_at = Some(now);
            self.inputs.extend(self.store.measure_wanted(now));
            self.inputs.push_back(self.store.arena());
        }
        self.hear_fetchers();
        self.hear_page_faults();
        self.inputs.push_back(LendingInput::Tick);
        self.settle();
        self.expire_sockets(now);
        self.settle();
    }

    /// Passes on what the threads that fetch pages have found out about lenders.
    fn hear_fetchers(&mut self) {
        for news in self.tables.far.ledger().take_news() {
            match news {
                FetchNews::Forger { lender } => {
                    self.inputs
                        .push_back(LendingInput::Distrust { peer: lender });
                }
                FetchNews::Guard {
                    lender,
                    backing,
                    change,
                } => {
                    if let Some(name) = self.tables.members.name(lender) {
                        self.observer.observe(PeerNotice::Guard {
                            name,
                            backing,
                            change,
                        });
                    }
                }
            }
        }
    }

    /// Counts what peers did wrong on page connections, and logs the first of each party and fault.
    fn hear_page_faults(&mut self) {
        let all = self.tables.far.ledger().faults().take();
        for CountedFaults {
            party,
            fault,
            count,
        } in all
        {
            let party = party.and_then(|party| self.refused_party(party));
            let news = {
                let mut refusals = self.tables.refusals.lock();
                refusals.count_many(party.clone(), fault.label(), count)
            };
            if let Some(party) = party.filter(|_| news == RefusalNews::First) {
                self.observer
                    .observe(PeerNotice::PageFault { party, fault });
            }
        }
    }

    fn refused_party(&self, party: FaultParty) -> Option<RefusedParty> {
        match party {
            FaultParty::Peer(peer) => {
                let name = self.tables.members.name(peer)?;
                Some(RefusedParty::Member(name))
            }
            FaultParty::Address(address) => Some(RefusedParty::Address(address)),
        }
    }

    /// Tells the node all that happened, and carries out what it wants.
    pub(super) fn settle(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            let now = self.now();
            self.tables.node.write().handle(now, input);
            while let Some(action) = self.next_action() {
                self.perform(action);
            }
        }
    }

    /// The lock is free again before the action is carried out.
    fn next_action(&self) -> Option<LendingAction> {
        self.tables.node.write().poll_action()
    }
}
