//! Fetches pages from lenders, as the daemon's fetcher does: one read for each lease, and a guard for each lender that
//! says whether and for how long it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use sublet_lend::guard::{GuardPolicy, GuardState, LenderGuard};
use sublet_lend::ids::{ConnectionId, LeaseId, PeerId, SessionId};
use sublet_lend::wire::READS_IN_FLIGHT_MAX;
use sublet_store::{AwayTicket, LeaseSlot, PageSending};

use super::courier::RECONNECT_PAUSE;
use super::routes::LeaseRoute;
use super::state::{NodeState, PeerSession};
use crate::cluster::content::{GuestPage, STAMP_BYTES};
use crate::cluster::environment::{ClusterEvent, Environment};
use crate::cluster::judges::WaitingRequest;
use crate::cluster::messages::{
    ChannelClass, LentPlace, PageHello, PageMessage, ReadAnswer, ReadPage, ReadRequest, RequestTag,
};
use crate::cluster::mutation::Mutation;
use crate::cluster::network::CloseKind;
use crate::cluster::seal::{FakeKey, SealNonce};
use crate::cluster::trace::TraceEvent;
use crate::virtual_time::VirtualInstant;

/// What a read of a guest's disk takes.
pub(super) const DISK_READ: Duration = Duration::from_millis(4);

/// The first round trip to a lender that has not been measured.
const FIRST_PING: Duration = Duration::from_micros(150);

/// Forged pages in a row after which a lender is not trusted any more.
const LIES_IN_A_ROW_MAX: u32 = 3;

/// A guard that is shut gets no ping for so long if there are too few pages at the lender that somebody reads.
const UNPINGED_MAX: Duration = Duration::from_secs(1);

/// A page that a guest waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedPage {
    pub(super) page: GuestPage,
    pub(super) ticket: AwayTicket,
    /// How often the page had other tickets before, because it changed meanwhile.
    pub(super) rounds: u32,
}

/// What became of a page that was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchOutcome {
    /// Its bytes. Their seal was opened.
    Page([u8; STAMP_BYTES]),
    /// The lender did not give it in time.
    Gone,
    /// The lender was not asked. The page may still be there.
    NotAsked,
}

/// A page of which it is known what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchedPage {
    pub(super) wanted: WantedPage,
    pub(super) outcome: FetchOutcome,
}

/// Why a lender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadPurpose {
    Fetch,
    Probe,
}

/// A read that is not answered.
struct PendingRead {
    lender: PeerId,
    slot: LeaseSlot,
    lease: LeaseId,
    key: FakeKey,
    pages: Vec<WantedPage>,
    tag: RequestTag,
    asked_at: VirtualInstant,
    until: VirtualInstant,
    /// The time limit, as the node's clock counts it.
    limit: Duration,
    purpose: ReadPurpose,
}

/// The connection to a lender.
struct ReadChannel {
    connection: ConnectionId,
    session: SessionId,
    tags: u64,
    /// Requests that were not answered, each with its read, unless that was given up.
    unanswered: BTreeMap<RequestTag, Option<u64>>,
}

/// A lender that pages are fetched from.
struct AskedLender {
    guard: LenderGuard,
    channel: Option<ReadChannel>,
    connects_at: VirtualInstant,
    probed_at: Option<Duration>,
    lies_in_a_row: u32,
}

/// The fetcher of a node.
#[derive(Default)]
pub(super) struct Fetcher {
    lenders: BTreeMap<PeerId, AskedLender>,
    reads: BTreeMap<u64, PendingRead>,
    next: u64,
    connections: u64,
}

fn ended(pages: Vec<WantedPage>, outcome: FetchOutcome) -> Vec<FetchedPage> {
    let pages = pages.into_iter();
    pages
        .map(|wanted| FetchedPage { wanted, outcome })
        .collect()
}

impl Fetcher {
    /// Asks for pages of one lease. Returns those of which it is known at once what becomes of them.
    pub(super) fn ask(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        slot: LeaseSlot,
        pages: Vec<WantedPage>,
    ) -> Vec<FetchedPage> {
        let Some(route) = state.routes.find(slot) else {
            return ended(pages, FetchOutcome::Gone);
        };
        let Some(session) = state.sessions.get(&route.lender).copied() else {
            return ended(pages, FetchOutcome::NotAsked);
        };
        let local = state.clock.local(env.now);
        let lender = self
            .lenders
            .entry(route.lender)
            .or_insert_with(AskedLender::new);
        let Some((purpose, limit)) = lender.decide(local) else {
            return ended(pages, FetchOutcome::NotAsked);
        };
        self.connections += 1;
        let number = self.connections;
        let Some(channel) = lender.connected(state, env, session, number) else {
            return ended(pages, FetchOutcome::NotAsked);
        };
        if channel.unanswered.len() == READS_IN_FLIGHT_MAX {
            return ended(pages, FetchOutcome::NotAsked);
        }
        self.next += 1;
        channel.tags += 1;
        let (id, tag) = (self.next, RequestTag(channel.tags));
        channel.unanswered.insert(tag, Some(id));
        let places = pages.iter().map(|wanted| LentPlace {
            index: wanted.ticket.address.index,
            place: wanted.ticket.address.place,
        });
        let request = ReadRequest {
            tag,
            lease: route.lease,
            places: places.collect(),
        };
        let connection = channel.connection;
        env.note(
            state.node(),
            TraceEvent::Reads(state.member(route.lender), pages.len()),
        );
        env.send_pages(state.run, connection, PageMessage::Read(request));
        let until = env.now + state.clock.true_span(limit);
        if !env.leaves_out(Mutation::NoTimeLimit) {
            env.at(until, ClusterEvent::ReadLate(state.run, id));
        }
        let read = PendingRead {
            lender: route.lender,
            slot,
            lease: route.lease,
            key: route.key,
            pages,
            tag,
            asked_at: env.now,
            until,
            limit,
            purpose,
        };
        self.reads.insert(id, read);
        Vec::new()
    }

    /// Takes an answer.
    pub(super) fn answered(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        connection: ConnectionId,
        data: &ReadAnswer,
    ) -> Vec<FetchedPage> {
        let Some((peer, lender)) = self.lender_of(connection) else {
            return Vec::new();
        };
        let channel = lender.channel.as_mut();
        let id = channel.and_then(|channel| channel.unanswered.remove(&data.tag));
        let Some(read) = id.flatten().and_then(|id| self.reads.remove(&id)) else {
            return Vec::new();
        };
        let now = state.clock.local(env.now);
        let took = now.saturating_sub(state.clock.local(read.asked_at));
        let Some(lender) = self.lenders.get_mut(&peer) else {
            return Vec::new();
        };
        match read.purpose {
            ReadPurpose::Fetch => lender.guard.answered(took),
            ReadPurpose::Probe => lender.guard.pinged(took),
        };
        env.note(
            state.node(),
            TraceEvent::ReadEnded(state.member(peer), "answered"),
        );
        let mut fetched = Vec::with_capacity(read.pages.len());
        for (ordinal, wanted) in read.pages.iter().enumerate() {
            let came = data.pages.iter().find(|page| page.ordinal == ordinal);
            let opened = came.map(|page| open(state, env, &read, (wanted, page)));
            let outcome = match opened {
                Some(OpenedPage::Plain(stamp)) => {
                    lender.lies_in_a_row = 0;
                    FetchOutcome::Page(stamp)
                }
                Some(OpenedPage::Forged) => {
                    lender.lies_in_a_row += 1;
                    FetchOutcome::Gone
                }
                Some(OpenedPage::Overwritten) | None => FetchOutcome::Gone,
            };
            fetched.push(FetchedPage {
                wanted: *wanted,
                outcome,
            });
        }
        fetched
    }

    /// Gives a read up whose time is over.
    pub(super) fn late(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        id: u64,
    ) -> Vec<FetchedPage> {
        let Some(read) = self.reads.remove(&id) else {
            return Vec::new();
        };
        env.note(
            state.node(),
            TraceEvent::ReadEnded(state.member(read.lender), "late"),
        );
        if let Some(lender) = self.lenders.get_mut(&read.lender) {
            match read.purpose {
                ReadPurpose::Fetch => lender.guard.timed_out(read.limit),
                ReadPurpose::Probe => lender.guard.ping_timed_out(read.limit),
            };
            if let Some(channel) = &mut lender.channel
                && let Some(of_tag) = channel.unanswered.get_mut(&read.tag)
            {
                *of_tag = None;
            }
        }
        ended(read.pages, FetchOutcome::Gone)
    }

    /// A connection is over. What was asked on it is gone.
    pub(super) fn ended(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        connection: ConnectionId,
    ) -> Vec<FetchedPage> {
        match self.lender_of(connection) {
            Some((lender, _)) => self.disconnect(state, env, lender, FetchOutcome::Gone),
            None => Vec::new(),
        }
    }

    /// Ends the connection to a lender, if there is one.
    pub(super) fn disconnect(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        lender: PeerId,
        outcome: FetchOutcome,
    ) -> Vec<FetchedPage> {
        let Some(asked) = self.lenders.get_mut(&lender) else {
            return Vec::new();
        };
        let Some(channel) = asked.channel.take() else {
            return Vec::new();
        };
        asked.connects_at = env.now + RECONNECT_PAUSE;
        env.close(state.run, channel.connection, CloseKind::Abort);
        let ids = channel.unanswered.into_values().flatten();
        let reads = ids.filter_map(|id| self.reads.remove(&id));
        reads.flat_map(|read| ended(read.pages, outcome)).collect()
    }

    /// Records that a read of the disk was needed.
    pub(super) fn missed(&mut self) {
        for lender in self.lenders.values_mut() {
            lender.guard.missed(DISK_READ);
        }
    }

    /// Lenders that lied too often in a row. Their counts begin anew.
    pub(super) fn take_liars(&mut self) -> Vec<PeerId> {
        let lenders = self.lenders.iter_mut();
        let liars = lenders.filter(|(_, lender)| lender.lies_in_a_row >= LIES_IN_A_ROW_MAX);
        let liars = liars.map(|(peer, lender)| {
            lender.lies_in_a_row = 0;
            *peer
        });
        liars.collect()
    }

    /// Whether pages may be sent to lenders: to none if all are too slow.
    pub(super) fn sending(&self, local: Duration) -> PageSending {
        let is_worth = |lender: &AskedLender| lender.is_worth_sending(local);
        match self.lenders.is_empty() || self.lenders.values().any(is_worth) {
            true => PageSending::Allowed,
            false => PageSending::Paused,
        }
    }

    /// Lets the judge look whether a read waits for longer than it may.
    pub(super) fn look(&self, state: &NodeState, env: &mut Environment) {
        for read in self.reads.values() {
            let waiting = WaitingRequest {
                what: "a read",
                until: read.until,
                awake_since: state.stopped_until,
            };
            let finding = waiting.check(env.now);
            env.judge(state.node(), finding);
        }
    }

    fn lender_of(&mut self, connection: ConnectionId) -> Option<(PeerId, &mut AskedLender)> {
        let is_it = |lender: &AskedLender| {
            let channel = lender.channel.as_ref();
            channel.is_some_and(|channel| channel.connection == connection)
        };
        let mut lenders = self.lenders.iter_mut();
        let found = lenders.find(|(_, lender)| is_it(lender));
        found.map(|(peer, lender)| (*peer, lender))
    }
}

impl AskedLender {
    fn new() -> AskedLender {
        AskedLender {
            guard: LenderGuard::new(GuardPolicy::Relative, FIRST_PING, DISK_READ),
            channel: None,
            connects_at: VirtualInstant::START,
            probed_at: None,
            lies_in_a_row: 0,
        }
    }

    /// How the lender may be asked now, and for how long. `None` if it is too slow.
    fn decide(&mut self, now: Duration) -> Option<(ReadPurpose, Duration)> {
        let interval = self.guard.ping_interval();
        let is_due = |interval| self.probed_at.is_none_or(|at| now >= at + interval);
        if interval.is_some_and(is_due) {
            self.probed_at = Some(now);
            return Some((ReadPurpose::Probe, self.guard.probe_limit()));
        }
        let is_open = self.guard.state() == GuardState::Open;
        is_open.then(|| (ReadPurpose::Fetch, self.guard.time_limit()))
    }

    fn is_worth_sending(&self, now: Duration) -> bool {
        let is_unpinged = || self.probed_at.is_none_or(|at| now > at + UNPINGED_MAX);
        self.guard.state() == GuardState::Open || is_unpinged()
    }

    /// The connection in a session. It is opened if there is none, unless one was lost a moment ago.
    fn connected(
        &mut self,
        state: &NodeState,
        env: &mut Environment,
        session: PeerSession,
        number: u64,
    ) -> Option<&mut ReadChannel> {
        if self.channel.is_none() && env.now >= self.connects_at {
            let connection = env.open([state.run, session.peer_run], ChannelClass::Read);
            let hello = PageHello {
                class: ChannelClass::Read,
                session: session.theirs,
                number,
                lender: session.incarnation,
            };
            env.send_pages(state.run, connection, PageMessage::Hello(hello));
            self.channel = Some(ReadChannel {
                connection,
                session: session.ours,
                tags: 0,
                unanswered: BTreeMap::new(),
            });
        }
        let channel = self.channel.as_mut();
        channel.filter(|channel| channel.session == session.ours)
    }
}

/// What the bytes of a page turn out to be.
enum OpenedPage {
    /// What was sealed.
    Plain([u8; STAMP_BYTES]),
    /// Perhaps those of a later page of the place, or of a write that was lost.
    Overwritten,
    /// None that this node sealed.
    Forged,
}

fn open(
    state: &mut NodeState,
    env: &mut Environment,
    read: &PendingRead,
    (wanted, came): (&WantedPage, &ReadPage),
) -> OpenedPage {
    let ticket = &wanted.ticket;
    let nonce = SealNonce::of(ticket.address, ticket.seal.sequence, env.mutation);
    if let Some(plain) = read.key.open(nonce, ticket.seal.tag, came.bytes) {
        return OpenedPage::Plain(plain);
    }
    if env.leaves_out(Mutation::SealUnchecked) {
        return OpenedPage::Plain(read.key.masked(nonce, came.bytes));
    }
    if came.is_altered {
        return OpenedPage::Forged;
    }
    let route = state.routes.find_mut(read.slot);
    let route = route.filter(|route| route.lease == read.lease);
    let excuses = |route: &mut LeaseRoute| route.excuses(ticket.address);
    if !state.memory.store.is_current(ticket) || route.is_some_and(excuses) {
        return OpenedPage::Overwritten;
    }
    let finding = env.judges.seal.forged(state.member(read.lender));
    env.judge(state.node(), finding);
    OpenedPage::Forged
}
