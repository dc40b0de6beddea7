//! A client's end of a session, without a socket, and the bytes that it says.

use std::sync::Arc;

use parking_lot::Mutex;
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::Bytes;

use crate::block::{Disk, Outcome, Outcomes};
use crate::nbd::Exports;
use crate::nbd::queue::Queue;
use crate::nbd::session::in_flight::{DiskId, Whose};
use crate::nbd::session::negotiate::Tls;
use crate::nbd::session::{Next, Session};
use crate::nbd::workplace::Workplace;
use crate::tenancy::{Clock, Doorman, Ledger};

/// Outcomes that came and were not heard yet.
#[derive(Default)]
struct Came(Mutex<Vec<Outcome>>);

impl Outcomes for Came {
    fn done(&self, outcome: Outcome) {
        self.0.lock().push(outcome);
    }
}

/// One session, and what a connection does for it.
pub(super) struct Line {
    session: Session,
    exports: Arc<Exports>,
    workplace: Workplace,
    came: Arc<Came>,
    inbox: Vec<u8>,
    outbox: Queue,
    pub(super) heard: Vec<u8>,
    pub(super) next: Next,
}

impl Line {
    pub(super) fn new(exports: &Arc<Exports>, tls: Tls) -> Line {
        let came = Arc::new(Came::default());
        let outcomes: Arc<dyn Outcomes> = Arc::clone(&came) as Arc<dyn Outcomes>;
        let mut outbox = Queue::default();
        let whose = Whose {
            place: 0,
            serial: 1,
        };
        let mut line = Line {
            session: Session::new(whose, tls, &mut outbox),
            exports: Arc::clone(exports),
            workplace: Workplace::new(doorman(), outcomes),
            came,
            inbox: Vec::new(),
            outbox,
            heard: Vec::new(),
            next: Next::Read,
        };
        line.send();
        line
    }

    /// Says bytes, in one piece; goes on until the session wants more.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        let apart = self.session.wanted();
        let count = apart.len().min(bytes.len());
        apart[..count].copy_from_slice(&bytes[..count]);
        self.session.got(count);
        self.inbox.extend_from_slice(&bytes[count..]);
        loop {
            let inbox = std::mem::take(&mut self.inbox);
            let (exports, out) = (&self.exports, &mut self.outbox);
            let advance = self
                .session
                .advance(&inbox, exports, out, &mut self.workplace);
            self.inbox = inbox[advance.consumed..].to_vec();
            self.next = advance.next;
            self.hear_outcomes();
            self.send();
            match advance.next {
                Next::Write | Next::Hold => {}
                _ => return,
            }
        }
    }

    /// Others hold so many bytes from now on.
    pub(super) fn others_hold(&mut self, bytes: usize) {
        self.workplace.held = bytes;
    }

    /// Others' requests to a disk hold so many bytes more from now on.
    pub(super) fn others_ask(&mut self, disk: &Arc<dyn Disk>, bytes: usize) {
        self.workplace.buffer(DiskId::of(disk), bytes);
    }

    /// The disk of that name.
    pub(super) fn disk(&self, name: &str) -> Arc<dyn Disk> {
        self.exports.find(name).expect("there")
    }

    /// TLS is spoken from now on.
    pub(super) fn begin_tls(&mut self) {
        self.session.begin_tls();
    }

    /// Requests that were not answered, and bytes that the workplace thinks are held.
    pub(super) fn left(&self) -> (u32, usize) {
        (self.session.in_flight(), self.workplace.held)
    }

    /// What was heard since it was last asked.
    pub(super) fn take_heard(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.heard)
    }

    fn hear_outcomes(&mut self) {
        loop {
            let came = std::mem::take(&mut *self.came.0.lock());
            if came.is_empty() {
                return;
            }
            for outcome in came {
                let flight = self.workplace.land(outcome.token).expect("a flight");
                let (out, workplace) = (&mut self.outbox, &mut self.workplace);
                self.session.hear(flight, outcome, out, workplace);
            }
        }
    }

    fn send(&mut self) {
        self.heard.extend_from_slice(self.outbox.waiting());
        self.outbox.finish(self.outbox.len());
    }
}

fn doorman() -> Doorman {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(64),
        limit: Bytes::mib(64),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    let store = store.expect("memory for a small store");
    Doorman::new(&store, Clock::start(), &Arc::new(Ledger::default())).expect("the first worker")
}

/// Takes numbers and bytes off the front of what was heard.
pub(super) struct Ear<'a>(pub(super) &'a [u8]);

impl<'a> Ear<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().expect("two bytes"))
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().expect("four bytes"))
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().expect("eight bytes"))
    }
}

/// An option.
pub(super) fn option(number: u32, own: &[u8]) -> Vec<u8> {
    let len = (own.len() as u32).to_be_bytes();
    [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &len, own].concat()
}

/// What GO and INFO say.
pub(super) fn wish(name: &str, items: &[u16]) -> Vec<u8> {
    let mut own = [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
    own.extend((items.len() as u16).to_be_bytes());
    own.extend(items.iter().flat_map(|item| item.to_be_bytes()));
    own
}

/// What LIST_META_CONTEXT and SET_META_CONTEXT say.
pub(super) fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut own = [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
    own.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        own.extend((query.len() as u32).to_be_bytes());
        own.extend(query.as_bytes());
    }
    own
}

/// A request without its payload.
pub(super) fn request(flags: u16, verb: u16, cookie: u64, at: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(verb.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}
