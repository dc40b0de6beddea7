//! Pages between two hosts in one process: a store at each end, and real sockets between them.

mod borrower;
mod carried;
mod fake_lender;
mod hostile_borrower;
mod hostile_lender;
mod lender;
mod raw_connection;

pub(super) use borrower::{LEASE, PATIENT, TestBorrower, session};
pub(crate) use fake_lender::{FakeLender, Lie};
pub(super) use lender::OneSession;
pub(super) use raw_connection::{RawConnection, ranges, reads_without_bound};

use sublet_lend::guard::GuardPolicy;
use sublet_lend::ids::{Incarnation, LeaseId, PeerId, SessionId};
use sublet_lend::seal::{Cipher, LeaseKey};
use sublet_lend::wire::{PAGE_BYTES, SessionKeys, SessionNonces, SessionPeer};
use sublet_store::{LeaseSlot, PageSettings, Store, StoreSettings};
use sublet_types::Bytes;

use std::net::SocketAddr;
use std::sync::Arc;

use super::courier::Courier;
use super::far_memory::FarMemory;
use super::lease_routes::LeaseRoute;
use super::lender_session::{LenderSession, LenderSessionSettings};
use super::ticket_check::TicketCheck;

/// The incarnations of both ends, the session, and the borrower's place in the lender's list.
pub(super) const LENDER_INCARNATION: u64 = 0x1111_2222_3333_4444;
pub(super) const BORROWER_INCARNATION: Incarnation = Incarnation(7);
pub(super) const SESSION: SessionId = SessionId(5);
pub(super) const PEER: PeerId = PeerId(0);

/// The borrower, as the lender knows it in a session.
pub(super) fn session_peer(session: SessionId) -> SessionPeer {
    SessionPeer {
        node: 0xb,
        incarnation: BORROWER_INCARNATION.0,
        session: session.0,
    }
}

/// The keys of the session.
pub(super) fn session_keys() -> SessionKeys {
    let nonces = SessionNonces {
        connector: [1; 32],
        acceptor: [2; 32],
    };
    SessionKeys::new(&[3; 32], nonces)
}

/// A session with a lender.
fn lender_session(lender: PeerId, address: SocketAddr, session: SessionId) -> Arc<LenderSession> {
    Arc::new(LenderSession::new(LenderSessionSettings {
        lender,
        address,
        incarnation: LENDER_INCARNATION,
        borrower: session_peer(session),
        keys: session_keys(),
    }))
}

/// A session with a lender that nobody reaches.
pub(super) fn session_with(lender: PeerId) -> Arc<LenderSession> {
    lender_session(lender, ([127, 0, 0, 1], 1).into(), SESSION)
}

/// A store of blocks of 2 MiB.
pub(super) fn store(memory: Bytes, far_blocks: u32) -> Arc<Store> {
    let store = Store::new(StoreSettings {
        capacity: memory,
        limit: memory,
        item_max: Bytes::mib(1),
        seed: 5,
        evicts: true,
        pages: PageSettings {
            shards: 1,
            far_blocks,
            ..PageSettings::default()
        },
    });
    store.expect("a store")
}

/// What a store has of a lender that lent it blocks, and the courier that carries pages there.
pub(crate) fn borrow_of(
    lender: &FakeLender,
    store: &Arc<Store>,
    blocks: u32,
) -> (FarMemory, Courier) {
    let far = FarMemory::new(GuardPolicy::Relative);
    store
        .add_to_lease(LeaseSlot(0), 0, 0..blocks)
        .expect("room");
    let route = LeaseRoute {
        session: lender_session(PeerId(0), lender.address, SESSION),
        lease: LeaseId(1),
        key: Arc::new(LeaseKey::new(Cipher::Aegis128X2, &[9; 32])),
        lost_writes: Arc::default(),
        tickets: TicketCheck::new(Arc::clone(store)),
    };
    far.routes().set(LeaseSlot(0), route);
    let courier = Courier::start(store, far.routes(), far.ledger().faults()).expect("it starts");
    (far, courier)
}

/// A page that repeats its content in every word.
pub(super) fn page_of(content: u64) -> Vec<u8> {
    let words = (0..PAGE_BYTES as u64 / 8).flat_map(|word| (content + word).to_le_bytes());
    words.collect()
}

/// The content of a page. Panics if the page is torn.
pub(super) fn content_of(page: &[u8]) -> u64 {
    let content = u64::from_le_bytes(*page.first_chunk().expect("a page"));
    assert_eq!(page, page_of(content), "a torn page");
    content
}
