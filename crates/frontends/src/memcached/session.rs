//! One connection's protocol state: bytes in, bytes out, no sockets.
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

use super::caller::{Caller, Place};
use super::commands::{binary, text};
use super::connections::{Doing, Peer};
use super::events::{Ending, Event};
use super::instance::Instance;
use super::large_value::LargeValue;
use super::operate::listing::Listing;
use super::outcome::{After, Gate, PendingGet, Ran};
pub use super::outcome::{Next, REPLY_HIGH_WATER};
use super::settings::Protocol;
use super::watch::Feed;
use super::wire::packet;
use crate::tenancy::Tenancy;

/// Requests up to this size wait in the input until they are whole; larger ones are gathered by the session.
pub const WAITING_INPUT_MAX: usize = 16 << 10;

/// A line that is longer without an end closes the connection, unless it is a get of many keys.
const LINE_MAX: usize = 2048;

/// The most spaces before a get of many keys.
const LEADING_SPACES_MAX: usize = 100;

/// One connection's protocol state; knows nothing of sockets.
pub struct Session {
    instance: Arc<Instance>,
    peer: Arc<Peer>,
    exchange: Exchange,
}

/// What changes from request to request; apart from whom it is with, so that a caller borrows both.
struct Exchange {
    speech: Speech,
    gate: Gate,
    /// The listener's own tenant, once a request came: who logs in may become another, and be it again.
    own_tenant: Option<TenantId>,
    between: Between,
    place: Place,
    /// Bytes of the unconsumed input in which no line's end was found.
    scanned: usize,
    /// Bytes of input that this session keeps waiting beyond [`WAITING_INPUT_MAX`].
    reserved: usize,
    ending: Ending,
}

/// How far a call of [`Session::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Bytes of the input that are done with. The rest is given again, at the front of the next input.
    pub consumed: usize,
    /// What the loop does next.
    pub next: Next,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    Undecided,
    Text,
    Binary,
}

/// What lies between the last request and the next.
enum Between {
    Nothing,
    /// A value that is discarded.
    Swallow(usize),
    /// A value that is being gathered.
    Gather(Box<LargeValue>),
    /// Keys of a get that are still to be answered, in so many bytes of its line.
    Get(PendingGet, usize),
    /// A listing that goes on.
    List(Box<Listing>),
    /// Lines for one who watches.
    Watch(Arc<Feed>),
}

/// One request or a part of one.
enum Step {
    Done(usize),
    More(usize),
    Stop(usize, Next),
}

impl Session {
    /// The state of a new connection. Who entered the peer in the instance's table takes it out.
    pub fn new(instance: Arc<Instance>, peer: Arc<Peer>) -> Session {
        instance.observed(&peer, || Event::Connected);
        let settings = &instance.settings;
        let gate = match settings.sasl || settings.auth_file.is_some() {
            true => Gate::Shut,
            false => Gate::Open,
        };
        let speech = match settings.protocol {
            _ if settings.auth_file.is_some() => Speech::Text,
            _ if settings.sasl => Speech::Binary,
            Protocol::Auto => Speech::Undecided,
            Protocol::Ascii => Speech::Text,
            Protocol::Binary => Speech::Binary,
        };
        let exchange = Exchange {
            speech,
            gate,
            own_tenant: None,
            between: Between::Nothing,
            place: Place::First,
            scanned: 0,
            reserved: 0,
            ending: Ending::Normal,
        };
        Session {
            instance,
            peer,
            exchange,
        }
    }

    /// It holds memory that all connections share: a large value or a long line is on its way in.
    pub(crate) fn holds_shared_memory(&self) -> bool {
        self.exchange.reserved > 0 || matches!(self.exchange.between, Between::Gather(_))
    }

    /// It is the client's turn: nothing is being listed, and it does not watch.
    pub(crate) fn awaits_client(&self) -> bool {
        !matches!(self.exchange.between, Between::Watch(_) | Between::List(_))
    }

    /// Whether its client has shown who it is, where it has to.
    pub fn is_known(&self) -> bool {
        self.exchange.gate == Gate::Open
    }

    /// Hears that the connection is closed because it was idle.
    pub(crate) fn note_idle(&mut self) {
        self.exchange.ending = Ending::Idle;
    }

    /// Runs complete requests of `input`, appending their replies to `out`.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>, tenancy: &Tenancy) -> Advance {
        let Session {
            instance,
            peer,
            exchange,
        } = self;
        if let Between::Watch(feed) = &exchange.between {
            if out.is_empty() {
                feed.take(&instance.watchers, tenancy.clock(), out);
            }
            return Advance {
                consumed: input.len(),
                next: Next::Watch,
            };
        }
        let unsent = out.len();
        let caller = Caller {
            instance,
            peer,
            tenancy,
            place: exchange.place,
        };
        exchange.begin(caller);
        let batch = tenancy.batch();
        let (mut consumed, mut requests) = (0, 0);
        let next = loop {
            let rest = &input[consumed..];
            if let Some(next) = exchange.stop_before(caller, rest, out.len(), requests) {
                break next;
            }
            exchange.prepare(caller, rest, requests);
            let place = exchange.place;
            let (done, next) = exchange.step(Caller { place, ..caller }, rest, out).parts();
            exchange.place = match next {
                Some(Next::Read { .. }) => Place::First,
                _ => Place::Behind,
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
        exchange.keep_waiting(caller, input.len() - consumed, advance)
    }
}

impl Step {
    /// Bytes that are done with, and what the loop does next, unless it goes on.
    fn parts(self) -> (usize, Option<Next>) {
        match self {
            Step::Done(bytes) => (bytes, None),
            Step::More(wanted) => (0, Some(Next::Read { wanted })),
            Step::Stop(bytes, next) => (bytes, Some(next)),
        }
    }
}

impl Exchange {
    fn begin(&mut self, caller: Caller<'_>) {
        caller.peer.set_doing(Doing::Running);
        self.own_tenant.get_or_insert(caller.tenancy.tenant());
    }

    /// What the loop has to do before another request is run, if anything.
    fn stop_before(
        &mut self,
        caller: Caller<'_>,
        rest: &[u8],
        unsent: usize,
        requests: usize,
    ) -> Option<Next> {
        if unsent > REPLY_HIGH_WATER {
            return Some(Next::Write);
        }
        if rest.is_empty() && !matches!(self.between, Between::List(_)) {
            self.place = Place::First;
            return Some(Next::Read { wanted: 1 });
        }
        if requests == caller.instance.settings.requests_per_turn.max(1) {
            caller.counters().conn_yields.bump();
            return Some(Next::Yield);
        }
        None
    }

    /// What is due before a request is run.
    fn prepare(&self, caller: Caller<'_>, rest: &[u8], requests: usize) {
        if requests == 0 {
            caller.peer.set_last_request(caller.tenancy.now());
        }
        if requests.is_multiple_of(text::ahead::LOOK) && self.awaits_lines() {
            text::ahead::requests(caller, rest);
        }
        caller.tenancy.flush_if_due();
    }

    fn awaits_lines(&self) -> bool {
        self.speech == Speech::Text && matches!(self.between, Between::Nothing)
    }

    /// Goes on with what lies between two requests, or runs the next one.
    fn step(&mut self, caller: Caller<'_>, input: &[u8], out: &mut Vec<u8>) -> Step {
        match std::mem::replace(&mut self.between, Between::Nothing) {
            Between::Nothing => {}
            Between::Swallow(left) => return self.swallow(caller, left, input.len()),
            Between::Gather(value) => return self.gather(caller, value, input, out),
            Between::Get(get, left) => {
                return self.get(caller, get, &input[..left.min(input.len())], out);
            }
            Between::List(listing) => return self.list(caller, listing, out),
            Between::Watch(feed) => {
                self.between = Between::Watch(feed);
                return Step::Stop(input.len(), Next::Watch);
            }
        }
        let (head, after) = match self.head_len(input) {
            Ok(len) => input.split_at(len),
            Err(step) => return step,
        };
        let body = After::Input(after);
        let ran = match self.speech {
            Speech::Binary => binary::run(caller, self.gate, head, body, out),
            _ => text::run(caller, self.gate, without_end(head), body, out),
        };
        self.after(caller, head, after, ran)
    }

    /// Bytes of the next request's head: a line with its end, or a packet's head, extras and key. Where it is not whole, what
    /// is to be done instead.
    fn head_len(&mut self, input: &[u8]) -> Result<usize, Step> {
        if self.speech == Speech::Undecided {
            self.speech = match input[0] {
                packet::REQUEST_MAGIC => Speech::Binary,
                _ => Speech::Text,
            };
        }
        match self.speech {
            Speech::Binary => self.packet_len(input),
            _ => self.line_len(input),
        }
    }

    fn line_len(&mut self, input: &[u8]) -> Result<usize, Step> {
        let Some(end) = memchr(b'\n', &input[self.scanned..]) else {
            return Err(self.long_line(input));
        };
        let len = self.scanned + end + 1;
        self.scanned = 0;
        Ok(len)
    }

    /// A line without an end so far: only a get of many keys may become long.
    fn long_line(&mut self, input: &[u8]) -> Step {
        let spaces = input.iter().take_while(|&&byte| byte == b' ').count();
        let line = &input[spaces..];
        let many_keys = line.starts_with(b"get ") || line.starts_with(b"gets ");
        if input.len() > LINE_MAX && (spaces > LEADING_SPACES_MAX || !many_keys) {
            self.ending = Ending::Error;
            return Step::Stop(input.len(), Next::Close);
        }
        self.scanned = input.len();
        Step::More(1)
    }

    fn packet_len(&mut self, input: &[u8]) -> Result<usize, Step> {
        match packet::head_len(input) {
            Ok(len) if len <= input.len() => Ok(len),
            Ok(len) => Err(Step::More(len - input.len())),
            Err(packet::BadMagic) => {
                self.ending = Ending::Error;
                Err(Step::Stop(input.len(), Next::Close))
            }
        }
    }

    fn after(&mut self, caller: Caller<'_>, head: &[u8], after: &[u8], ran: Ran) -> Step {
        match ran {
            Ran::Done { after } => Step::Done(head.len() + after),
            Ran::Awaits { body } => self.await_body(caller, head, after, body),
            Ran::Swallow { body } => {
                self.between = Between::Swallow(body);
                Step::Done(head.len())
            }
            Ran::Get(get, done) => {
                self.between = Between::Get(get, head.len() - done);
                Step::Stop(done, Next::Write)
            }
            Ran::List { after, listing } => {
                self.between = Between::List(listing);
                Step::Done(head.len() + after)
            }
            Ran::Watch(feed) => {
                self.between = Between::Watch(feed);
                caller.peer.set_doing(Doing::Watching);
                Step::Stop(head.len() + after.len(), Next::Watch)
            }
            Ran::Admit { after, tenant } => {
                self.gate = Gate::Open;
                let now = caller.tenancy.tenant();
                let tenant = tenant.or(self.own_tenant).unwrap_or(now);
                match tenant == now {
                    true => Step::Done(head.len() + after),
                    false => Step::Stop(head.len() + after, Next::Become(tenant)),
                }
            }
            Ran::Disown { body } => {
                self.gate = Gate::Shut;
                self.between = Between::Swallow(body);
                Step::Done(head.len())
            }
            Ran::Stop(next) => Step::Stop(head.len() + after.len(), next),
            Ran::Break => {
                self.ending = Ending::Error;
                Step::Stop(head.len() + after.len(), Next::Close)
            }
        }
    }

    fn await_body(&mut self, caller: Caller<'_>, head: &[u8], after: &[u8], body: usize) -> Step {
        caller.peer.set_doing(Doing::AwaitingValue);
        if head.len() + body <= WAITING_INPUT_MAX {
            return Step::More(body - after.len());
        }
        self.between = Between::Gather(Box::new(LargeValue::new(head, body)));
        Step::Done(head.len())
    }

    fn swallow(&mut self, caller: Caller<'_>, left: usize, available: usize) -> Step {
        let now = left.min(available);
        if left > now {
            self.between = Between::Swallow(left - now);
            caller.peer.set_doing(Doing::Swallowing);
        }
        Step::Done(now)
    }

    fn gather(
        &mut self,
        caller: Caller<'_>,
        mut value: Box<LargeValue>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Step {
        let Some(taken) = value.take(&caller.instance.memory, input) else {
            return self.gathered(caller, &value, After::NoMemory, out);
        };
        let wanted = value.missing();
        if wanted == 0 {
            let step = self.gathered(caller, &value, After::Input(value.body()), out);
            return match step {
                Step::Stop(_, next) => Step::Stop(taken, next),
                _ => Step::Done(taken),
            };
        }
        caller.peer.set_doing(Doing::AwaitingValue);
        self.between = Between::Gather(value);
        Step::Stop(taken, Next::Read { wanted })
    }

    /// Runs a request whose value was gathered, or could not be.
    fn gathered(
        &mut self,
        caller: Caller<'_>,
        value: &LargeValue,
        after: After<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        let ran = match self.speech {
            Speech::Binary => binary::run(caller, self.gate, value.head(), after, out),
            _ => text::run(caller, self.gate, without_end(value.head()), after, out),
        };
        let step = match self.after(caller, &[], &[], ran) {
            Step::Stop(_, next) => Step::Stop(0, next),
            _ => Step::Done(0),
        };
        if let Between::Swallow(left) = &mut self.between {
            *left = value.missing();
        }
        value.give_back(&caller.instance.memory);
        step
    }

    fn get(&mut self, caller: Caller<'_>, get: PendingGet, line: &[u8], out: &mut Vec<u8>) -> Step {
        match text::get::run(caller, get, without_end(line), out) {
            None => Step::Done(line.len()),
            Some(done) => {
                self.between = Between::Get(get, line.len() - done);
                Step::Stop(done, Next::Write)
            }
        }
    }

    fn list(&mut self, caller: Caller<'_>, listing: Box<Listing>, out: &mut Vec<u8>) -> Step {
        if let Some(rest) = listing.run(caller, out) {
            self.between = Between::List(rest);
        }
        Step::Done(0)
    }

    /// Accounts for input that stays with the loop beyond what every connection may keep, and says what the connection does now.
    fn keep_waiting(&mut self, caller: Caller<'_>, left: usize, advance: Advance) -> Advance {
        let needed = left.saturating_sub(WAITING_INPUT_MAX);
        let waits = matches!(advance.next, Next::Read { .. });
        let wanted = if waits {
            needed
        } else {
            self.reserved.min(needed)
        };
        caller.instance.memory.give_back(self.reserved);
        self.reserved = 0;
        if wanted > 0 && !caller.instance.memory.take(wanted) {
            self.ending = Ending::Error;
            return Advance {
                next: Next::Close,
                ..advance
            };
        }
        self.reserved = wanted;
        match advance.next {
            Next::Read { .. } if caller.peer.doing() == Doing::Running => {
                caller.peer.set_doing(Doing::Reading)
            }
            Next::Write | Next::Close => caller.peer.set_doing(Doing::Writing),
            _ => {}
        }
        advance
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match &self.exchange.between {
            Between::Watch(feed) => self.instance.watchers.leave(feed),
            Between::Gather(value) => value.give_back(&self.instance.memory),
            _ => {}
        }
        self.instance.memory.give_back(self.exchange.reserved);
        self.instance
            .observed(&self.peer, || Event::Closed(self.exchange.ending));
    }
}

/// A line without its `\n` or `\r\n`.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
