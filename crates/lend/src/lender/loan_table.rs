//! All leases of all peers of this node, and each lent block once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lent_lease::{IndexLookup, LEASE_WINDOW_MAX, LentLease};
use crate::control::LEASES_PER_PEER_MAX;
use crate::ids::{Incarnation, LeaseId, LentBlock, PeerId, SessionId};
use crate::index_set::{IndexRange, IndexRanges, IndexSet};

/// How long a peer's leases stay after its connection ended. It may come back within that time.
pub const KEPT_FOR: Duration = Duration::from_secs(10);

/// What a data connection learns about an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoanLookup {
    /// It stands for this block.
    Lent(LentBlock),
    /// Its block, or its lease, is gone.
    Gone,
    /// It was never granted, or the session is not the peer's. Who asks lies, or comes from an old session.
    Foreign,
}

/// A lease that ended, with the blocks that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedLease {
    /// Whose it was.
    pub peer: PeerId,
    /// Its number.
    pub lease: LeaseId,
    /// The blocks. They are in no lease any more.
    pub blocks: Vec<LentBlock>,
}

/// Blocks that were appended to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The lease.
    pub lease: LeaseId,
    /// The first index.
    pub first: u32,
    /// How many blocks have indices from there on.
    pub count: u32,
    /// Blocks that were not appended: they are lent already, or there was no room.
    pub left: Vec<LentBlock>,
}

/// Blocks that left a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreedBlocks {
    /// The blocks. They are in no lease any more.
    pub blocks: Vec<LentBlock>,
    /// Whether the lease has no block any more, and ended.
    pub ended: bool,
}

/// Indices of one lease whose blocks the lender took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenRanges {
    /// Whose lease it is.
    pub peer: PeerId,
    /// The lease.
    pub lease: LeaseId,
    /// The indices, in parts that fit a message.
    pub ranges: Vec<IndexRanges>,
    /// How many there are.
    pub count: u32,
    /// Whether the lease has no block any more, and ended.
    pub ended: bool,
}

/// The leases of one peer.
#[derive(Debug, Default)]
pub(super) struct PeerLoans {
    session: Option<SessionId>,
    incarnation: Option<Incarnation>,
    /// When the leases end, if the connection is lost.
    kept_until: Option<Duration>,
    /// Rising by number, [`LEASES_PER_PEER_MAX`] at most.
    pub(super) leases: Vec<(LeaseId, LentLease)>,
}

impl PeerLoans {
    pub(super) fn lease_mut(&mut self, lease: LeaseId) -> Option<&mut LentLease> {
        let found = self.leases.iter_mut().find(|(id, _)| *id == lease);
        found.map(|(_, lease)| lease)
    }

    fn lent(&self) -> u32 {
        self.leases.iter().map(|(_, lease)| lease.lent()).sum()
    }
}

/// Where a lent block is.
#[derive(Clone, Copy, Debug)]
struct LentAt {
    opening: u64,
    peer: PeerId,
    lease: LeaseId,
    index: u32,
}

/// The table of all loans. Each block is in it once at most.
#[derive(Debug)]
pub struct LoanTable {
    pub(super) peers: Vec<PeerLoans>,
    by_block: BTreeMap<u32, LentAt>,
    /// Peers whose connection is lost. Time changes nothing for the others.
    lost: BTreeSet<PeerId>,
    /// The number of the next lease. None comes twice.
    next_lease: u32,
}

impl LoanTable {
    /// An empty table for this many peers.
    pub fn new(peers: usize) -> LoanTable {
        let peers = std::iter::repeat_with(PeerLoans::default)
            .take(peers)
            .collect();
        LoanTable {
            peers,
            by_block: BTreeMap::new(),
            lost: BTreeSet::new(),
            next_lease: 1,
        }
    }

    /// Makes room for one more peer, the last.
    pub fn add_peer(&mut self) {
        self.peers.push(PeerLoans::default());
    }

    /// Finds the block of an index for a data connection of a session. It takes constant time and allocates nothing.
    pub fn find(&self, peer: PeerId, session: SessionId, lease: LeaseId, index: u32) -> LoanLookup {
        let Some(loans) = self.peers.get(peer.slot()) else {
            return LoanLookup::Foreign;
        };
        if loans.session != Some(session) || lease.0 >= self.next_lease {
            return LoanLookup::Foreign;
        }
        let found = loans.leases.iter().find(|(id, _)| *id == lease);
        match found.map_or(IndexLookup::Gone, |(_, lease)| lease.find(index)) {
            IndexLookup::Lent(block) => LoanLookup::Lent(block),
            IndexLookup::Gone => LoanLookup::Gone,
            IndexLookup::Never => LoanLookup::Foreign,
        }
    }

    /// How many blocks are lent to all peers.
    pub fn lent(&self) -> u32 {
        self.by_block.len() as u32
    }

    /// How many blocks are lent to a peer.
    pub fn lent_to(&self, peer: PeerId) -> u32 {
        self.peers.get(peer.slot()).map_or(0, PeerLoans::lent)
    }

    /// Each lease of a peer, with the number of its blocks.
    pub fn leases_of(&self, peer: PeerId) -> impl Iterator<Item = (LeaseId, u32)> + '_ {
        let loans = self.peers.get(peer.slot());
        let leases = loans.into_iter().flat_map(|loans| &loans.leases);
        leases.map(|(id, lease)| (*id, lease.lent()))
    }

    /// Each lent block of a peer.
    pub fn blocks_of(&self, peer: PeerId) -> impl Iterator<Item = LentBlock> + '_ {
        let loans = self.peers.get(peer.slot());
        let leases = loans.into_iter().flat_map(|loans| &loans.leases);
        leases.flat_map(|(_, lease)| lease.all().map(|(_, block)| block))
    }

    /// How many more blocks can be granted to a peer at once.
    pub fn room_for(&self, peer: PeerId) -> usize {
        let Some(loans) = self.peers.get(peer.slot()) else {
            return 0;
        };
        let newest = loans.leases.last().map_or(0, |(_, lease)| lease.room());
        match newest {
            0 if loans.leases.len() < LEASES_PER_PEER_MAX && self.next_lease < u32::MAX => {
                LEASE_WINDOW_MAX
            }
            room => room,
        }
    }

    /// Begins a session of a peer. Leases of the same incarnation go on. Those of another end at once, and are returned.
    pub fn begin_session(
        &mut self,
        peer: PeerId,
        incarnation: Incarnation,
        session: SessionId,
    ) -> Vec<EndedLease> {
        let is_same = self.peers[peer.slot()].incarnation == Some(incarnation);
        let ended = if is_same {
            Vec::new()
        } else {
            self.end_peer(peer)
        };
        let loans = &mut self.peers[peer.slot()];
        loans.session = Some(session);
        loans.incarnation = Some(incarnation);
        loans.kept_until = None;
        for (_, lease) in &mut loans.leases {
            lease.open_audit = None;
        }
        self.lost.remove(&peer);
        ended
    }

    /// Records that the connection of a peer is lost. Its leases end [`KEPT_FOR`] later unless it comes back.
    pub fn lose_session(&mut self, peer: PeerId, now: Duration) {
        let loans = &mut self.peers[peer.slot()];
        loans.kept_until.get_or_insert(now + KEPT_FOR);
        self.lost.insert(peer);
    }

    /// Ends the leases of peers that did not come back in time.
    pub fn expire(&mut self, now: Duration) -> Vec<EndedLease> {
        let is_over = |peer: &&PeerId| {
            let until = self.peers[peer.slot()].kept_until;
            until.is_some_and(|until| until <= now)
        };
        let over: Vec<PeerId> = self.lost.iter().filter(is_over).copied().collect();
        over.into_iter()
            .flat_map(|peer| self.end_peer(peer))
            .collect()
    }

    /// Ends all leases of a peer at once. Its session and its incarnation are forgotten.
    pub fn end_peer(&mut self, peer: PeerId) -> Vec<EndedLease> {
        let loans = std::mem::take(&mut self.peers[peer.slot()]);
        self.lost.remove(&peer);
        let mut ended = Vec::new();
        for (lease, table) in loans.leases {
            let blocks: Vec<LentBlock> = table.all().map(|(_, block)| block).collect();
            for block in &blocks {
                self.by_block.remove(&block.block);
            }
            ended.push(EndedLease {
                peer,
                lease,
                blocks,
            });
        }
        ended
    }

    /// Appends blocks to the peer's newest lease, or to a new one if that has no room. Blocks that are lent already,
    /// and those without room, are left.
    pub fn grant(&mut self, peer: PeerId, blocks: &[LentBlock]) -> LeaseGrant {
        let mut grant = LeaseGrant {
            lease: LeaseId(0),
            first: 0,
            count: 0,
            left: Vec::new(),
        };
        let room = self.room_for(peer);
        for block in blocks {
            if self.by_block.contains_key(&block.block) || grant.count as usize == room {
                grant.left.push(*block);
                continue;
            }
            let (lease, table) = self.lease_with_room(peer);
            let index = table.append(*block);
            if grant.count == 0 {
                (grant.lease, grant.first) = (lease, index);
            }
            grant.count += 1;
            let at = LentAt {
                opening: block.opening,
                peer,
                lease,
                index,
            };
            self.by_block.insert(block.block, at);
        }
        grant
    }

    /// The peer's newest lease if it has room, else a new one.
    fn lease_with_room(&mut self, peer: PeerId) -> (LeaseId, &mut LentLease) {
        let leases = &mut self.peers[peer.slot()].leases;
        if leases.last().is_none_or(|(_, table)| table.room() == 0) {
            leases.push((LeaseId(self.next_lease), LentLease::default()));
            self.next_lease += 1;
        }
        let (lease, table) = leases.last_mut().expect("one was pushed if there was none");
        (*lease, table)
    }

    /// Takes out what a borrower returned. `None` if the lease is not the peer's. Indices that are gone are ignored.
    pub fn give_back(
        &mut self,
        peer: PeerId,
        lease: LeaseId,
        ranges: &[IndexRange],
    ) -> Option<FreedBlocks> {
        let table = self.peers.get_mut(peer.slot())?.lease_mut(lease)?;
        let blocks = ranges
            .iter()
            .flat_map(|range| table.take_range(*range))
            .collect();
        Some(self.freed(peer, lease, blocks))
    }

    /// Forgets where blocks were that left a lease, and ends the lease if it has no other.
    pub(super) fn freed(
        &mut self,
        peer: PeerId,
        lease: LeaseId,
        blocks: Vec<LentBlock>,
    ) -> FreedBlocks {
        for block in &blocks {
            self.by_block.remove(&block.block);
        }
        let leases = &mut self.peers[peer.slot()].leases;
        let before = leases.len();
        leases.retain(|(id, table)| *id != lease || table.lent() > 0);
        FreedBlocks {
            blocks,
            ended: leases.len() < before,
        }
    }

    /// Marks blocks gone that the host took, or is about to take. Blocks that are not lent are ignored.
    pub fn mark_taken(&mut self, blocks: &[LentBlock]) -> Vec<TakenRanges> {
        let mut by_lease: BTreeMap<(PeerId, LeaseId), (Vec<LentBlock>, IndexSet)> = BTreeMap::new();
        for block in blocks {
            let Some(&at) = self.by_block.get(&block.block) else {
                continue;
            };
            if at.opening != block.opening {
                continue;
            }
            let table = self.peers[at.peer.slot()].lease_mut(at.lease);
            let taken = table.and_then(|table| table.take(at.index));
            self.by_block.remove(&block.block);
            if let (Some(block), Ok(range)) = (taken, IndexRange::new(at.index, 1)) {
                let (blocks, indices) = by_lease.entry((at.peer, at.lease)).or_default();
                blocks.push(block);
                indices.insert(range);
            }
        }
        let taken = by_lease
            .into_iter()
            .map(|((peer, lease), (blocks, indices))| {
                let ended = self.freed(peer, lease, blocks).ended;
                TakenRanges {
                    peer,
                    lease,
                    ranges: indices.messages(),
                    count: indices.count(),
                    ended,
                }
            });
        taken.collect()
    }

    /// The coldest blocks of a peer, by the heats that the store gives. Blocks that are not the peer's are ignored.
    pub fn coldest(&self, peer: PeerId, count: u32, heats: &[(LentBlock, u64)]) -> Vec<LentBlock> {
        let is_lent = |block: &LentBlock| {
            let at = self.by_block.get(&block.block);
            at.is_some_and(|at| at.peer == peer && at.opening == block.opening)
        };
        let mut lent: Vec<&(LentBlock, u64)> =
            heats.iter().filter(|(block, _)| is_lent(block)).collect();
        lent.sort_by_key(|(block, heat)| (*heat, *block));
        lent.dedup_by_key(|(block, _)| *block);
        lent.iter()
            .take(count as usize)
            .map(|(block, _)| *block)
            .collect()
    }
}
