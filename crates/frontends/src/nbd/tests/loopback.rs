//! A client's end of a session, without a socket, and the bytes that it sends.

use std::sync::Arc;

use parking_lot::Mutex;
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::Bytes;

use crate::block_device::{Disk, DiskOutcome, OutcomeSink};
use crate::nbd::Exports;
use crate::nbd::session::in_flight::{ConnectionId, DiskId};
use crate::nbd::session::negotiation::TlsState;
use crate::nbd::session::{LoopAction, Session};
use crate::nbd::socket_buffer::SocketBuffer;
use crate::nbd::worker_resources::WorkerResources;
use crate::tenancy::{Clock, Ledger, StoreHandle};

/// Outcomes that the session has not taken yet.
#[derive(Default)]
struct CollectedOutcomes(Mutex<Vec<DiskOutcome>>);

impl OutcomeSink for CollectedOutcomes {
    fn deliver(&self, outcome: DiskOutcome) {
        self.0.lock().push(outcome);
    }
}

/// A session, and what a connection does for it.
pub(super) struct LoopbackClient {
    session: Session,
    exports: Arc<Exports>,
    resources: WorkerResources,
    outcomes: Arc<CollectedOutcomes>,
    inbox: Vec<u8>,
    outbox: SocketBuffer,
    pub(super) replies: Vec<u8>,
    pub(super) next: LoopAction,
}

impl LoopbackClient {
    pub(super) fn new(exports: &Arc<Exports>, tls: TlsState) -> LoopbackClient {
        let collected = Arc::new(CollectedOutcomes::default());
        let outcomes: Arc<dyn OutcomeSink> = Arc::clone(&collected) as Arc<dyn OutcomeSink>;
        let mut outbox = SocketBuffer::default();
        let id = ConnectionId {
            place: 0,
            serial: 1,
        };
        let mut line = LoopbackClient {
            session: Session::new(id, tls, &mut outbox),
            exports: Arc::clone(exports),
            resources: WorkerResources::new(store(), outcomes),
            outcomes: collected,
            inbox: Vec::new(),
            outbox,
            replies: Vec::new(),
            next: LoopAction::Read,
        };
        line.collect_replies();
        line
    }

    /// Sends bytes in one piece, and continues until the session wants more.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let apart = self.session.payload_space();
        let count = apart.len().min(bytes.len());
        apart[..count].copy_from_slice(&bytes[..count]);
        self.session.payload_received(count);
        self.inbox.extend_from_slice(&bytes[count..]);
        loop {
            let inbox = std::mem::take(&mut self.inbox);
            let (exports, out) = (&self.exports, &mut self.outbox);
            let advance = self
                .session
                .advance(&inbox, exports, out, &mut self.resources);
            self.inbox = inbox[advance.consumed..].to_vec();
            self.next = advance.next;
            self.deliver_outcomes();
            self.collect_replies();
            match advance.next {
                LoopAction::Write | LoopAction::AwaitDisk => {}
                _ => return,
            }
        }
    }

    /// Makes other connections hold so many bytes.
    pub(super) fn others_hold(&mut self, bytes: usize) {
        self.resources.held = bytes;
    }

    /// Makes other connections' requests to a disk hold so many more bytes.
    pub(super) fn others_ask(&mut self, disk: &Arc<dyn Disk>, bytes: usize) {
        self.resources.allocate_buffer(DiskId::of(disk), bytes);
    }

    /// The disk of that name.
    pub(super) fn disk(&self, name: &str) -> Arc<dyn Disk> {
        self.exports.find(name).expect("there")
    }

    /// Begins TLS.
    pub(super) fn begin_tls(&mut self) {
        self.session.begin_tls();
    }

    /// How many requests are unanswered, and how many bytes the worker's resources count as held.
    pub(super) fn in_flight_and_held(&self) -> (u32, usize) {
        (self.session.in_flight(), self.resources.held)
    }

    /// The replies since the last call.
    pub(super) fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    fn deliver_outcomes(&mut self) {
        loop {
            let collected = std::mem::take(&mut *self.outcomes.0.lock());
            if collected.is_empty() {
                return;
            }
            for outcome in collected {
                let request = self
                    .resources
                    .remove_in_flight(outcome.token)
                    .expect("a flight");
                let (out, resources) = (&mut self.outbox, &mut self.resources);
                self.session
                    .complete_request(request, outcome, out, resources);
            }
        }
    }

    fn collect_replies(&mut self) {
        self.replies.extend_from_slice(self.outbox.waiting());
        self.outbox.consume(self.outbox.len());
    }
}

fn store() -> StoreHandle {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(64),
        limit: Bytes::mib(64),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    let store = store.expect("memory for a small store");
    StoreHandle::new(&store, Clock::start(), &Arc::new(Ledger::default()))
        .expect("the first worker")
}

/// Reads numbers and bytes from the front of replies.
pub(super) struct ReplyReader<'a>(pub(super) &'a [u8]);

impl<'a> ReplyReader<'a> {
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

/// The bytes of an option.
pub(super) fn option(number: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &len, payload].concat()
}

/// The payload of GO and INFO.
pub(super) fn export_query(name: &str, items: &[u16]) -> Vec<u8> {
    let mut payload = [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
    payload.extend((items.len() as u16).to_be_bytes());
    payload.extend(items.iter().flat_map(|item| item.to_be_bytes()));
    payload
}

/// The payload of LIST_META_CONTEXT and SET_META_CONTEXT.
pub(super) fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut payload = [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
    payload.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        payload.extend((query.len() as u32).to_be_bytes());
        payload.extend(query.as_bytes());
    }
    payload
}

/// The bytes of a request without its payload.
pub(super) fn request(flags: u16, verb: u16, cookie: u64, at: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(verb.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}
