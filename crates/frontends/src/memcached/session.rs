//! The protocol state of one connection. It turns bytes of requests into bytes of replies and knows no sockets.
//!
//! ```text
//!                  first byte 0x80        ┌──────── Binary
//!   Undecided ────────────────────────────┤
//!                  anything else          └──────── Text ── watch ──▶ (only lines out)
//!
//!   between requests: nothing · Swallow (a refused value) · Gather (a large value) · Get, List (a long reply)
//! ```

use std::sync::Arc;

use memchr::memchr;
use sublet_types::TenantId;

use super::caller::{Caller, PipelinePosition};
use super::commands::{binary, text};
use super::connections::{ConnectionState, Peer};
use super::instance::Instance;
use super::large_value::LargeValue;
use super::operate::listing::Listing;
use super::outcome::{AuthGate, PendingGet, RequestBody, RequestOutcome};
pub use super::outcome::{LoopAction, REPLY_HIGH_WATER};
use super::settings::Protocol;
use super::watch::Watcher;
use super::watch_event::{DisconnectReason, WatchEvent};
use super::wire::packet;
use crate::tenancy::Tenancy;

/// The largest request that waits in the input until it is whole, in bytes. The session gathers larger ones itself.
pub const WAITING_INPUT_MAX: usize = 16 << 10;

/// A longer line without an end closes the connection, unless it is a get of many keys.
const LINE_MAX: usize = 2048;

/// The most spaces before a get of many keys.
const LEADING_SPACES_MAX: usize = 100;

/// The protocol state of one connection. It knows nothing of sockets.
pub struct Session {
    instance: Arc<Instance>,
    peer: Arc<Peer>,
    state: SessionState,
}

/// The part of the session that changes from request to request. It stands apart from the instance and the peer, so
/// that a caller can borrow both.
struct SessionState {
    protocol: NegotiatedProtocol,
    gate: AuthGate,
    /// The listener's own tenant, known once a request came. A client that logs in may act for another tenant, and
    /// later for this one again.
    own_tenant: Option<TenantId>,
    continuation: Continuation,
    position: PipelinePosition,
    /// Bytes of the unconsumed input in which no end of a line was found.
    scanned: usize,
    /// Bytes of input beyond [`WAITING_INPUT_MAX`] that wait for this session.
    reserved: usize,
    close_reason: DisconnectReason,
}

/// How far a call of [`Session::advance`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Bytes of the input that are done with. The loop gives the rest again, at the front of the next input.
    pub consumed: usize,
    /// What the loop does next.
    pub next: LoopAction,
}

/// The protocol that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NegotiatedProtocol {
    Undecided,
    Text,
    Binary,
}

/// Unfinished work between the last request and the next.
enum Continuation {
    Nothing,
    /// A value that is discarded, with this many bytes left.
    Swallow(usize),
    /// A value that is being gathered.
    Gather(Box<LargeValue>),
    /// Keys of a get that have no reply yet, in this many bytes of its line.
    Get(PendingGet, usize),
    /// A listing that continues.
    List(Box<Listing>),
    /// Lines for a client that watches.
    Watch(Arc<Watcher>),
}

/// How far one request, or a part of one, got.
enum RequestStep {
    Done(usize),
    NeedInput(usize),
    Stop(usize, LoopAction),
}

impl Session {
    /// Makes the state of a new connection. The caller that added the peer to the instance's table also removes it.
    pub fn new(instance: Arc<Instance>, peer: Arc<Peer>) -> Session {
        instance.emit(&peer, || WatchEvent::Connected);
        let settings = &instance.settings;
        let gate = match settings.sasl || settings.auth_file.is_some() {
            true => AuthGate::Shut,
            false => AuthGate::Open,
        };
        let protocol = match settings.protocol {
            _ if settings.auth_file.is_some() => NegotiatedProtocol::Text,
            _ if settings.sasl => NegotiatedProtocol::Binary,
            Protocol::Auto => NegotiatedProtocol::Undecided,
            Protocol::Ascii => NegotiatedProtocol::Text,
            Protocol::Binary => NegotiatedProtocol::Binary,
        };
        let state = SessionState {
            protocol,
            gate,
            own_tenant: None,
            continuation: Continuation::Nothing,
            position: PipelinePosition::First,
            scanned: 0,
            reserved: 0,
            close_reason: DisconnectReason::Normal,
        };
        Session {
            instance,
            peer,
            state,
        }
    }

    /// Returns whether the session holds memory that all connections share: a large value or a long line is on its way
    /// in.
    pub(crate) fn holds_shared_memory(&self) -> bool {
        self.state.reserved > 0 || matches!(self.state.continuation, Continuation::Gather(_))
    }

    /// Returns whether the session waits for the client. It does not if a listing is under way or the client watches.
    pub(crate) fn awaits_client(&self) -> bool {
        !matches!(
            self.state.continuation,
            Continuation::Watch(_) | Continuation::List(_)
        )
    }

    /// Returns whether the client has authenticated, or need not.
    pub fn is_authenticated(&self) -> bool {
        self.state.gate == AuthGate::Open
    }

    /// Records that the connection is closed because it was idle.
    pub(crate) fn set_idle_closed(&mut self) {
        self.state.close_reason = DisconnectReason::Idle;
    }

    /// Runs the complete requests of `input` and appends their replies to `out`.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>, tenancy: &Tenancy) -> Advance {
        let Session {
            instance,
            peer,
            state,
        } = self;
        if let Continuation::Watch(watcher) = &state.continuation {
            if out.is_empty() {
                watcher.drain_into(&instance.watchers, tenancy.clock(), out);
            }
            return Advance {
                consumed: input.len(),
                next: LoopAction::Watch,
            };
        }
        let unsent = out.len();
        let caller = Caller {
            instance,
            peer,
            tenancy,
            position: state.position,
        };
        state.begin_batch(caller);
        let batch = tenancy.batch();
        let (mut consumed, mut requests) = (0, 0);
        let next = loop {
            let rest = &input[consumed..];
            if let Some(next) = state.action_before_next(caller, rest, out.len(), requests) {
                break next;
            }
            state.prepare(caller, rest, requests);
            let position = state.position;
            let (done, next) = state.step(Caller { position, ..caller }, rest, out).parts();
            state.position = match next {
                Some(LoopAction::Read { .. }) => PipelinePosition::First,
                _ => PipelinePosition::Behind,
            };
            consumed += done;
            if let Some(next) = next {
                break next;
            }
            requests += 1;
        };
        drop(batch);
        let counters = caller.counters();
        counters.bytes_read.add(consumed as u64);
        counters.bytes_written.add((out.len() - unsent) as u64);
        let advance = Advance { consumed, next };
        state.account_unconsumed(caller, input.len() - consumed, advance)
    }
}

impl RequestStep {
    /// Returns the bytes that are done with, and the next action of the loop if the session cannot continue.
    fn parts(self) -> (usize, Option<LoopAction>) {
        match self {
            RequestStep::Done(bytes) => (bytes, None),
            RequestStep::NeedInput(wanted) => (0, Some(LoopAction::Read { wanted })),
            RequestStep::Stop(bytes, next) => (bytes, Some(next)),
        }
    }
}

impl SessionState {
    fn begin_batch(&mut self, caller: Caller<'_>) {
        caller.peer.set_state(ConnectionState::Running);
        self.own_tenant.get_or_insert(caller.tenancy.tenant());
    }

    /// Returns what the loop must do before another request is run, if anything.
    fn action_before_next(
        &mut self,
        caller: Caller<'_>,
        rest: &[u8],
        unsent: usize,
        requests: usize,
    ) -> Option<LoopAction> {
        if unsent > REPLY_HIGH_WATER {
            return Some(LoopAction::Write);
        }
        if rest.is_empty() && !matches!(self.continuation, Continuation::List(_)) {
            self.position = PipelinePosition::First;
            return Some(LoopAction::Read { wanted: 1 });
        }
        if requests == caller.instance.settings.requests_per_turn.max(1) {
            caller.counters().conn_yields.bump();
            return Some(LoopAction::Yield);
        }
        None
    }

    /// Does what is due before a request is run.
    fn prepare(&self, caller: Caller<'_>, rest: &[u8], requests: usize) {
        if requests == 0 {
            caller.peer.set_last_request(caller.tenancy.now());
        }
        if requests.is_multiple_of(text::prefetch::PREFETCH_MAX) && self.awaits_lines() {
            text::prefetch::for_requests(caller, rest);
        }
        caller.tenancy.flush_if_due();
    }

    fn awaits_lines(&self) -> bool {
        self.protocol == NegotiatedProtocol::Text
            && matches!(self.continuation, Continuation::Nothing)
    }

    /// Continues the unfinished work between two requests, or runs the next request.
    fn step(&mut self, caller: Caller<'_>, input: &[u8], out: &mut Vec<u8>) -> RequestStep {
        match std::mem::replace(&mut self.continuation, Continuation::Nothing) {
            Continuation::Nothing => {}
            Continuation::Swallow(left) => return self.swallow(caller, left, input.len()),
            Continuation::Gather(value) => return self.gather(caller, value, input, out),
            Continuation::Get(get, left) => {
                return self.get(caller, get, &input[..left.min(input.len())], out);
            }
            Continuation::List(listing) => return self.list(caller, listing, out),
            Continuation::Watch(watcher) => {
                self.continuation = Continuation::Watch(watcher);
                return RequestStep::Stop(input.len(), LoopAction::Watch);
            }
        }
        let (head, after) = match self.head_len(input) {
            Ok(len) => input.split_at(len),
            Err(step) => return step,
        };
        let body = RequestBody::Input(after);
        let outcome = match self.protocol {
            NegotiatedProtocol::Binary => binary::run(caller, self.gate, head, body, out),
            _ => text::run(caller, self.gate, without_end(head), body, out),
        };
        self.apply_outcome(caller, head, after, outcome)
    }

    /// Returns the length of the next request's head: a line with its end, or a packet's head, extras and key. If the
    /// head is not whole, returns the step to take instead.
    fn head_len(&mut self, input: &[u8]) -> Result<usize, RequestStep> {
        if self.protocol == NegotiatedProtocol::Undecided {
            self.protocol = match input[0] {
                packet::REQUEST_MAGIC => NegotiatedProtocol::Binary,
                _ => NegotiatedProtocol::Text,
            };
        }
        match self.protocol {
            NegotiatedProtocol::Binary => self.packet_len(input),
            _ => self.line_len(input),
        }
    }

    fn line_len(&mut self, input: &[u8]) -> Result<usize, RequestStep> {
        let Some(end) = memchr(b'\n', &input[self.scanned..]) else {
            return Err(self.long_line(input));
        };
        let len = self.scanned + end + 1;
        self.scanned = 0;
        Ok(len)
    }

    /// Returns the step to take for a line without an end so far. Only a get of many keys may become long.
    fn long_line(&mut self, input: &[u8]) -> RequestStep {
        let spaces = input.iter().take_while(|&&byte| byte == b' ').count();
        let line = &input[spaces..];
        let many_keys = line.starts_with(b"get ") || line.starts_with(b"gets ");
        if input.len() > LINE_MAX && (spaces > LEADING_SPACES_MAX || !many_keys) {
            self.close_reason = DisconnectReason::Error;
            return RequestStep::Stop(input.len(), LoopAction::Close);
        }
        self.scanned = input.len();
        RequestStep::NeedInput(1)
    }

    fn packet_len(&mut self, input: &[u8]) -> Result<usize, RequestStep> {
        match packet::head_len(input) {
            Ok(len) if len <= input.len() => Ok(len),
            Ok(len) => Err(RequestStep::NeedInput(len - input.len())),
            Err(packet::BadMagic) => {
                self.close_reason = DisconnectReason::Error;
                Err(RequestStep::Stop(input.len(), LoopAction::Close))
            }
        }
    }

    fn apply_outcome(
        &mut self,
        caller: Caller<'_>,
        head: &[u8],
        after: &[u8],
        outcome: RequestOutcome,
    ) -> RequestStep {
        match outcome {
            RequestOutcome::Done { body } => RequestStep::Done(head.len() + body),
            RequestOutcome::Awaits { body } => self.await_body(caller, head, after, body),
            RequestOutcome::Swallow { body } => {
                self.continuation = Continuation::Swallow(body);
                RequestStep::Done(head.len())
            }
            RequestOutcome::Get(get, done) => {
                self.continuation = Continuation::Get(get, head.len() - done);
                RequestStep::Stop(done, LoopAction::Write)
            }
            RequestOutcome::List { body, listing } => {
                self.continuation = Continuation::List(listing);
                RequestStep::Done(head.len() + body)
            }
            RequestOutcome::Watch(watcher) => {
                self.continuation = Continuation::Watch(watcher);
                caller.peer.set_state(ConnectionState::Watching);
                RequestStep::Stop(head.len() + after.len(), LoopAction::Watch)
            }
            RequestOutcome::Authenticated { body, tenant } => {
                self.gate = AuthGate::Open;
                let now = caller.tenancy.tenant();
                let tenant = tenant.or(self.own_tenant).unwrap_or(now);
                match tenant == now {
                    true => RequestStep::Done(head.len() + body),
                    false => RequestStep::Stop(head.len() + body, LoopAction::SwitchTenant(tenant)),
                }
            }
            RequestOutcome::Deauthenticated { body } => {
                self.gate = AuthGate::Shut;
                self.continuation = Continuation::Swallow(body);
                RequestStep::Done(head.len())
            }
            RequestOutcome::Stop(next) => RequestStep::Stop(head.len() + after.len(), next),
            RequestOutcome::ProtocolError => {
                self.close_reason = DisconnectReason::Error;
                RequestStep::Stop(head.len() + after.len(), LoopAction::Close)
            }
        }
    }

    fn await_body(
        &mut self,
        caller: Caller<'_>,
        head: &[u8],
        after: &[u8],
        body: usize,
    ) -> RequestStep {
        caller.peer.set_state(ConnectionState::AwaitingValue);
        if head.len() + body <= WAITING_INPUT_MAX {
            return RequestStep::NeedInput(body - after.len());
        }
        self.continuation = Continuation::Gather(Box::new(LargeValue::new(head, body)));
        RequestStep::Done(head.len())
    }

    fn swallow(&mut self, caller: Caller<'_>, left: usize, available: usize) -> RequestStep {
        let now = left.min(available);
        if left > now {
            self.continuation = Continuation::Swallow(left - now);
            caller.peer.set_state(ConnectionState::Swallowing);
        }
        RequestStep::Done(now)
    }

    fn gather(
        &mut self,
        caller: Caller<'_>,
        mut value: Box<LargeValue>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> RequestStep {
        let Some(received) = value.receive(&caller.instance.memory, input) else {
            return self.run_gathered(caller, &value, RequestBody::NoMemory, out);
        };
        let wanted = value.missing();
        if wanted == 0 {
            let step = self.run_gathered(caller, &value, RequestBody::Input(value.body()), out);
            return match step {
                RequestStep::Stop(_, next) => RequestStep::Stop(received, next),
                _ => RequestStep::Done(received),
            };
        }
        caller.peer.set_state(ConnectionState::AwaitingValue);
        self.continuation = Continuation::Gather(value);
        RequestStep::Stop(received, LoopAction::Read { wanted })
    }

    /// Runs a request whose value was gathered, or could not be gathered.
    fn run_gathered(
        &mut self,
        caller: Caller<'_>,
        value: &LargeValue,
        after: RequestBody<'_>,
        out: &mut Vec<u8>,
    ) -> RequestStep {
        let outcome = match self.protocol {
            NegotiatedProtocol::Binary => binary::run(caller, self.gate, value.head(), after, out),
            _ => text::run(caller, self.gate, without_end(value.head()), after, out),
        };
        let step = match self.apply_outcome(caller, &[], &[], outcome) {
            RequestStep::Stop(_, next) => RequestStep::Stop(0, next),
            _ => RequestStep::Done(0),
        };
        if let Continuation::Swallow(left) = &mut self.continuation {
            *left = value.missing();
        }
        value.give_back(&caller.instance.memory);
        step
    }

    fn get(
        &mut self,
        caller: Caller<'_>,
        get: PendingGet,
        line: &[u8],
        out: &mut Vec<u8>,
    ) -> RequestStep {
        match text::get::run(caller, get, without_end(line), out) {
            None => RequestStep::Done(line.len()),
            Some(done) => {
                self.continuation = Continuation::Get(get, line.len() - done);
                RequestStep::Stop(done, LoopAction::Write)
            }
        }
    }

    fn list(
        &mut self,
        caller: Caller<'_>,
        listing: Box<Listing>,
        out: &mut Vec<u8>,
    ) -> RequestStep {
        if let Some(rest) = listing.run(caller, out) {
            self.continuation = Continuation::List(rest);
        }
        RequestStep::Done(0)
    }

    /// Reserves memory for the unconsumed input beyond what every connection may keep. Sets the state of the
    /// connection.
    fn account_unconsumed(&mut self, caller: Caller<'_>, left: usize, advance: Advance) -> Advance {
        let needed = left.saturating_sub(WAITING_INPUT_MAX);
        let waits = matches!(advance.next, LoopAction::Read { .. });
        let wanted = if waits {
            needed
        } else {
            self.reserved.min(needed)
        };
        caller.instance.memory.give_back(self.reserved);
        self.reserved = 0;
        if wanted > 0 && !caller.instance.memory.try_reserve(wanted) {
            self.close_reason = DisconnectReason::Error;
            return Advance {
                next: LoopAction::Close,
                ..advance
            };
        }
        self.reserved = wanted;
        match advance.next {
            LoopAction::Read { .. } if caller.peer.state() == ConnectionState::Running => {
                caller.peer.set_state(ConnectionState::Reading)
            }
            LoopAction::Write | LoopAction::Close => {
                caller.peer.set_state(ConnectionState::Writing)
            }
            _ => {}
        }
        advance
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match &self.state.continuation {
            Continuation::Watch(watcher) => self.instance.watchers.leave(watcher),
            Continuation::Gather(value) => value.give_back(&self.instance.memory),
            _ => {}
        }
        self.instance.memory.give_back(self.state.reserved);
        self.instance
            .emit(&self.peer, || WatchEvent::Closed(self.state.close_reason));
    }
}

/// Returns a line without its `\n` or `\r\n`.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
