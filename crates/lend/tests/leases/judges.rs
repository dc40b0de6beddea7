//! What must hold at every step, whatever happened.

use std::collections::BTreeSet;

use sublet_lend::control::Grant;
use sublet_lend::ids::{Incarnation, LeaseId, LentBlock, PeerId, SessionId};
use sublet_lend::lender::LoanLookup;

use crate::store::BlockPlace;
use crate::world::{Member, peer_of};

/// One index that a lender granted.
struct GrantedIndex {
    lender: (usize, Incarnation),
    peer: PeerId,
    borrower: Incarnation,
    lease: LeaseId,
    index: u32,
    block: LentBlock,
    is_gone: bool,
}

/// One session that a lender opened.
struct OpenedSession {
    lender: (usize, Incarnation),
    peer: PeerId,
    borrower: Incarnation,
    session: SessionId,
}

/// So many past indices and sessions are looked at after each step.
const SAMPLES: usize = 12;

#[derive(Default)]
pub(crate) struct Judges {
    indices: Vec<GrantedIndex>,
    fresh: BTreeSet<(usize, Incarnation, LeaseId, u32)>,
    sessions: Vec<OpenedSession>,
    cursor: usize,
    /// How many steps were judged, and how many lookups found a block and none.
    pub(crate) steps: u64,
    pub(crate) found: u64,
    pub(crate) gone: u64,
}

impl Judges {
    /// A lender sends a grant. Its indices must never have been granted before.
    pub(crate) fn granted(
        &mut self,
        lender: usize,
        member: &Member,
        ends: [usize; 2],
        grant: &Grant,
    ) {
        let borrower = if ends[0] == lender { ends[1] } else { ends[0] };
        let peer = peer_of(lender, borrower);
        let session = member.sessions[&peer];
        let key = (lender, member.incarnation);
        let opened = self.sessions.iter().rev();
        let mut opened = opened.filter(|opened| opened.lender == key && opened.peer == peer);
        let incarnation = opened.next().expect("a grant follows a session").borrower;
        for index in grant.first..grant.first + grant.count.get() {
            let is_fresh = self
                .fresh
                .insert((lender, member.incarnation, grant.lease, index));
            assert!(
                is_fresh,
                "index {index} of lease {:?} returned",
                grant.lease
            );
            let LoanLookup::Lent(block) =
                member.node.loans().find(peer, session, grant.lease, index)
            else {
                panic!("index {index} was granted and stands for nothing");
            };
            self.indices.push(GrantedIndex {
                lender: key,
                peer,
                borrower: incarnation,
                lease: grant.lease,
                index,
                block,
                is_gone: false,
            });
        }
    }

    pub(crate) fn session_opened(
        &mut self,
        lender: (usize, Incarnation),
        peer: PeerId,
        borrower: Incarnation,
        session: SessionId,
    ) {
        self.sessions.push(OpenedSession {
            lender,
            peer,
            borrower,
            session,
        });
    }

    /// Judges a node after each of its steps.
    pub(crate) fn check(&mut self, at: usize, member: &Member) {
        self.steps += 1;
        owner(member);
        role(member);
        mirror(member);
        for _ in 0..SAMPLES {
            self.cursor += 1;
            self.old_index(at, member);
            self.old_session(at, member);
        }
    }

    /// An index stands for the block that it was granted for, or for nothing from some moment on. It never stands for
    /// anything for another peer, or for another incarnation.
    fn old_index(&mut self, at: usize, member: &Member) {
        let count = self.indices.len();
        if count == 0 {
            return;
        }
        let n = if self.cursor.is_multiple_of(2) {
            self.cursor % count
        } else {
            count - 1 - self.cursor % count.min(200)
        };
        let entry = &mut self.indices[n];
        if entry.lender != (at, member.incarnation) {
            return;
        }
        for (&peer, &session) in &member.sessions {
            let found = member
                .node
                .loans()
                .find(peer, session, entry.lease, entry.index);
            if peer != entry.peer {
                assert!(
                    !matches!(found, LoanLookup::Lent(_)),
                    "a foreign lease is honoured"
                );
                continue;
            }
            let mut opened = self.sessions.iter().rev();
            let key =
                |opened: &&OpenedSession| opened.lender == entry.lender && opened.peer == peer;
            let incarnation = opened.find(key).expect("a session").borrower;
            match found {
                LoanLookup::Lent(block) => {
                    assert_eq!(
                        incarnation, entry.borrower,
                        "a lease of an old incarnation is honoured"
                    );
                    assert_eq!(block, entry.block, "an index stands for another block");
                    assert!(!entry.is_gone, "an index came back");
                    self.found += 1;
                }
                LoanLookup::Gone => {
                    entry.is_gone = true;
                    self.gone += 1;
                }
                LoanLookup::Foreign => {}
            }
        }
    }

    /// A session that was replaced finds nothing.
    fn old_session(&self, at: usize, member: &Member) {
        let (Some(opened), Some(entry)) = (
            self.sessions.get(self.cursor % self.sessions.len().max(1)),
            self.indices.get(self.cursor % self.indices.len().max(1)),
        ) else {
            return;
        };
        let is_old = member.sessions.get(&opened.peer) != Some(&opened.session);
        if opened.lender == (at, member.incarnation) && is_old {
            let found =
                member
                    .node
                    .loans()
                    .find(opened.peer, opened.session, entry.lease, entry.index);
            assert_eq!(found, LoanLookup::Foreign, "an old session is honoured");
        }
    }
}

/// No story has more peers.
const PEERS_MAX: usize = 8;

/// A block is in at most one lease, and the store knows that it is away.
fn owner(member: &Member) {
    let peers = (0..PEERS_MAX as u16).map(PeerId);
    let mut lent = BTreeSet::new();
    for block in peers.flat_map(|peer| member.node.loans().blocks_of(peer)) {
        assert!(lent.insert(block.block), "{block:?} is in two leases");
        let known = member.store.blocks[block.block as usize];
        assert_eq!(
            known,
            (BlockPlace::Away, block.opening),
            "{block:?} is lent and not away"
        );
    }
    assert_eq!(
        lent.len() as u32,
        member.node.loans().lent(),
        "the count of lent blocks is wrong"
    );
}

/// A node lends or borrows.
fn role(member: &Member) {
    let (lent, borrowed) = (member.node.loans().lent(), member.node.borrows().borrowed());
    assert!(
        lent == 0 || borrowed == 0,
        "it lends {lent} and borrows {borrowed}"
    );
}

/// The store has no borrowed index that the node does not count.
fn mirror(member: &Member) {
    for ((peer, lease), indices) in &member.store.borrowed {
        let mut leases = member.node.borrows().leases_of(*peer);
        let (_, known) = leases
            .find(|(id, _)| id == lease)
            .expect("a lease that the store has");
        assert!(
            indices.runs().all(|run| known.held().contains_range(run)),
            "the store has an unknown index"
        );
    }
}
