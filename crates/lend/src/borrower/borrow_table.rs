//! The leases that this node has of each lender.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ask_backoff::AskBackoff;
use crate::control::{BlockCount, Claim, Grant, HeldCounts, LEASES_PER_PEER_MAX, LeaseAudit};
use crate::ids::{Incarnation, LeaseId, PeerId};
use crate::index_set::{IndexRange, IndexRanges, IndexSet, RANGES_MAX};

/// How long leases stay after the connection to their lender is lost.
pub const SUSPECT_FOR: Duration = Duration::from_secs(10);

/// How a borrower stands with one lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorrowState {
    /// There is no lease, and none was asked for.
    Idle,
    /// A lease was asked for, and there is none yet.
    Asked,
    /// There are leases.
    Open,
    /// There are leases, and the connection is lost. They end at `until`.
    Suspect {
        /// When they end.
        until: Duration,
    },
}

/// A grant that no honest lender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantFault {
    /// Nothing was asked for.
    #[error("a grant of {blocks} blocks without a request")]
    Unasked {
        /// The blocks.
        blocks: u32,
    },
    /// It grants more than was asked for.
    #[error("a grant of {granted} blocks; {asked} were asked for")]
    Excess {
        /// The blocks asked for.
        asked: u32,
        /// The blocks granted.
        granted: u32,
    },
    /// It names indices again that the lease has had.
    #[error("lease {lease} grants index {first} again; its indices rise")]
    IndexAgain {
        /// The lease.
        lease: LeaseId,
        /// The first index.
        first: u32,
    },
    /// It names the number of an ended lease, or no number.
    #[error("lease {lease} is granted again; the numbers of leases rise")]
    LeaseAgain {
        /// The lease.
        lease: LeaseId,
    },
    /// Its indices go beyond the largest.
    #[error("lease {lease} grants indices beyond the largest")]
    Beyond {
        /// The lease.
        lease: LeaseId,
    },
    /// There are too many leases of this lender.
    #[error("lease {lease} is one more than the {LEASES_PER_PEER_MAX} that a lender may give")]
    Leases {
        /// The lease.
        lease: LeaseId,
    },
}

/// What a grant changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOutcome {
    /// Nothing was granted.
    Refused,
    /// A new lease has these indices.
    Opened(IndexRange),
    /// A lease that is there has these indices in addition.
    Extended(IndexRange),
}

/// One lease as its borrower keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BorrowedLease {
    /// The indices that it has.
    held: IndexSet,
    /// The index after the last that was ever granted.
    next: u32,
}

impl BorrowedLease {
    /// The indices that the borrower has.
    pub fn held(&self) -> &IndexSet {
        &self.held
    }
}

/// A lease that ended for its borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedBorrow {
    /// Its number.
    pub lease: LeaseId,
    /// How many blocks the borrower had of it.
    pub blocks: u32,
}

/// The indices of a message that the borrower had and has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledPart {
    /// The lease.
    pub lease: LeaseId,
    /// The indices as the lender named them.
    pub ranges: IndexRanges,
    /// How many of them the borrower had.
    pub count: u32,
}

/// All that a borrower has of one lender.
#[derive(Debug, Default)]
struct LenderLeases {
    incarnation: Option<Incarnation>,
    suspect_until: Option<Duration>,
    asked: Option<u32>,
    backoff: AskBackoff,
    newest: LeaseId,
    leases: BTreeMap<LeaseId, BorrowedLease>,
}

impl LenderLeases {
    fn borrowed(&self) -> u32 {
        self.leases.values().map(|lease| lease.held.count()).sum()
    }

    fn sums(&self) -> BorrowSums {
        BorrowSums {
            borrowed: u64::from(self.borrowed()),
            asked: u64::from(self.asked.unwrap_or(0)),
        }
    }

    /// Takes a grant in. The error names what no honest lender does.
    fn granted(&mut self, now: Duration, grant: &Grant) -> Result<GrantOutcome, GrantFault> {
        let (lease, first, blocks) = (grant.lease, grant.first, grant.count.get());
        let asked = self.asked.ok_or(GrantFault::Unasked { blocks })?;
        if blocks > asked {
            return Err(GrantFault::Excess {
                asked,
                granted: blocks,
            });
        }
        if blocks == 0 {
            self.asked = None;
            self.backoff.refused(now);
            return Ok(GrantOutcome::Refused);
        }
        let range = IndexRange::new(first, blocks).map_err(|_| GrantFault::Beyond { lease })?;
        let is_new = !self.leases.contains_key(&lease);
        if is_new && lease <= self.newest {
            return Err(GrantFault::LeaseAgain { lease });
        }
        if is_new && self.leases.len() == LEASES_PER_PEER_MAX {
            return Err(GrantFault::Leases { lease });
        }
        let table = self.leases.entry(lease).or_default();
        if first < table.next {
            return Err(GrantFault::IndexAgain { lease, first });
        }
        table.held.insert(range);
        table.next = range.end();
        self.newest = self.newest.max(lease);
        self.asked = None;
        self.backoff.granted();
        Ok(if is_new {
            GrantOutcome::Opened(range)
        } else {
            GrantOutcome::Extended(range)
        })
    }
}

/// Sums over all lenders, in blocks.
#[derive(Clone, Copy, Debug, Default)]
struct BorrowSums {
    borrowed: u64,
    asked: u64,
}

/// The leases of all lenders, by peer.
#[derive(Debug)]
pub struct BorrowTable {
    lenders: Vec<LenderLeases>,
    sums: BorrowSums,
    /// Lenders whose connection is lost. Time changes nothing for the others.
    lost: BTreeSet<PeerId>,
}

impl BorrowTable {
    /// An empty table for this many peers.
    pub fn new(peers: usize) -> BorrowTable {
        BorrowTable {
            lenders: std::iter::repeat_with(LenderLeases::default)
                .take(peers)
                .collect(),
            sums: BorrowSums::default(),
            lost: BTreeSet::new(),
        }
    }

    /// Makes room for one more peer, the last.
    pub fn add_peer(&mut self) {
        self.lenders.push(LenderLeases::default());
    }

    /// Changes what is kept of a lender, and the sums with it.
    fn change<T>(&mut self, peer: PeerId, change: impl FnOnce(&mut LenderLeases) -> T) -> T {
        let lender = &mut self.lenders[peer.slot()];
        let before = lender.sums();
        let result = change(lender);
        let after = lender.sums();
        self.sums.borrowed = self.sums.borrowed + after.borrowed - before.borrowed;
        self.sums.asked = self.sums.asked + after.asked - before.asked;
        result
    }

    /// How many blocks are borrowed of all lenders.
    pub fn borrowed(&self) -> u32 {
        u32::try_from(self.sums.borrowed).unwrap_or(u32::MAX)
    }

    /// How many blocks are borrowed of a lender.
    pub fn borrowed_of(&self, peer: PeerId) -> u32 {
        self.lenders[peer.slot()].borrowed()
    }

    /// How many blocks were asked for and not answered, of all lenders.
    pub fn asked(&self) -> u32 {
        u32::try_from(self.sums.asked).unwrap_or(u32::MAX)
    }

    /// How the borrower stands with a lender.
    pub fn state(&self, peer: PeerId) -> BorrowState {
        let lender = &self.lenders[peer.slot()];
        match lender.suspect_until {
            Some(until) if !lender.leases.is_empty() => BorrowState::Suspect { until },
            _ if !lender.leases.is_empty() => BorrowState::Open,
            _ if lender.asked.is_some() => BorrowState::Asked,
            _ => BorrowState::Idle,
        }
    }

    /// Each lease of a lender.
    pub fn leases_of(&self, peer: PeerId) -> impl Iterator<Item = (LeaseId, &BorrowedLease)> {
        self.lenders[peer.slot()]
            .leases
            .iter()
            .map(|(&id, lease)| (id, lease))
    }

    /// The counts that a ping to a lender carries.
    pub fn held_of(&self, peer: PeerId) -> HeldCounts {
        let counts = self.leases_of(peer);
        let counts: BTreeMap<LeaseId, BlockCount> = counts
            .map(|(id, lease)| (id, BlockCount::saturating(lease.held.count())))
            .collect();
        HeldCounts::try_from(counts).expect("a grant never makes more leases than that")
    }

    /// Returns whether a lender may be asked: nothing is outstanding, and a refusal is long enough ago.
    pub fn may_ask(&self, peer: PeerId, now: Duration) -> bool {
        let lender = &self.lenders[peer.slot()];
        lender.asked.is_none() && lender.backoff.is_over(now)
    }

    /// Records that a lender was to be asked, and was not reached.
    pub fn not_reached(&mut self, peer: PeerId, now: Duration) {
        self.lenders[peer.slot()].backoff.refused(now);
    }

    /// Records that a lender is asked for blocks.
    pub fn ask(&mut self, peer: PeerId, blocks: u32) {
        self.change(peer, |lender| lender.asked = Some(blocks));
    }

    /// Begins a session with a lender. Leases of the same incarnation go on. Those of another end: they are returned.
    pub fn begin_session(&mut self, peer: PeerId, incarnation: Incarnation) -> Vec<EndedBorrow> {
        let is_same = self.lenders[peer.slot()].incarnation == Some(incarnation);
        let ended = if is_same {
            Vec::new()
        } else {
            self.end_lender(peer)
        };
        let lender = &mut self.lenders[peer.slot()];
        lender.incarnation = Some(incarnation);
        lender.suspect_until = None;
        self.lost.remove(&peer);
        ended
    }

    /// Records that the connection to a lender is lost. What was asked for is not answered any more.
    pub fn lose_session(&mut self, peer: PeerId, now: Duration) {
        self.change(peer, |lender| {
            lender.asked = None;
            lender.suspect_until.get_or_insert(now + SUSPECT_FOR);
        });
        self.lost.insert(peer);
    }

    /// Ends the leases of lenders that did not come back in time, and returns them.
    pub fn expire(&mut self, now: Duration) -> Vec<(PeerId, EndedBorrow)> {
        let is_over = |peer: &&PeerId| {
            let until = self.lenders[peer.slot()].suspect_until;
            until.is_some_and(|until| until <= now)
        };
        let over: Vec<PeerId> = self.lost.iter().filter(is_over).copied().collect();
        let mut ended = Vec::new();
        for peer in over {
            ended.extend(self.end_lender(peer).into_iter().map(|lease| (peer, lease)));
        }
        ended
    }

    /// Ends all leases of a lender at once, and forgets its incarnation. A refusal is remembered.
    pub fn end_lender(&mut self, peer: PeerId) -> Vec<EndedBorrow> {
        let ended = self.change(peer, |lender| {
            let backoff = lender.backoff;
            let empty = LenderLeases {
                backoff,
                ..LenderLeases::default()
            };
            std::mem::replace(lender, empty)
        });
        self.lost.remove(&peer);
        let leases = ended.leases.into_iter();
        let ended = leases.map(|(lease, table)| EndedBorrow {
            lease,
            blocks: table.held.count(),
        });
        ended.collect()
    }

    /// Takes a grant in. The error names what no honest lender does.
    pub fn granted(
        &mut self,
        peer: PeerId,
        now: Duration,
        grant: &Grant,
    ) -> Result<GrantOutcome, GrantFault> {
        self.change(peer, |lender| lender.granted(now, grant))
    }

    /// Takes out indices that the store gives back. Returns those that the borrower had, in parts that fit a message.
    pub fn give_back(
        &mut self,
        peer: PeerId,
        lease: LeaseId,
        ranges: &IndexRanges,
    ) -> Vec<IndexRanges> {
        self.change(peer, |lender| {
            let Some(table) = lender.leases.get_mut(&lease) else {
                return Vec::new();
            };
            let mut held = IndexSet::default();
            for range in ranges.as_slice() {
                for part in table.held.within(*range) {
                    held.insert(part);
                }
                table.held.remove(*range);
            }
            held.messages()
        })
    }

    /// Takes out indices that the lender took. It is not asked again for a while. `None` if the lease is not known.
    pub fn recalled(
        &mut self,
        peer: PeerId,
        now: Duration,
        lease: LeaseId,
        ranges: IndexRanges,
    ) -> Option<RecalledPart> {
        self.change(peer, |lender| {
            let table = lender.leases.get_mut(&lease)?;
            let count = ranges
                .as_slice()
                .iter()
                .map(|range| table.held.remove(*range))
                .sum();
            lender.backoff.refused(now);
            Some(RecalledPart {
                lease,
                ranges,
                count,
            })
        })
    }

    /// Ends a lease because its lender says so. Returns how many blocks it still had. `None` if it is not known.
    pub fn ended(&mut self, peer: PeerId, lease: LeaseId) -> Option<u32> {
        let ended = self.change(peer, |lender| lender.leases.remove(&lease))?;
        Some(ended.held.count())
    }

    /// The answer to a lender's question, in parts of at most [`RANGES_MAX`] ranges.
    pub fn claims(&self, peer: PeerId, audit: LeaseAudit) -> Vec<Claim> {
        let LeaseAudit { lease, end } = audit;
        let table = self.lenders[peer.slot()].leases.get(&lease);
        let runs = table.into_iter().flat_map(|table| table.held.runs());
        let runs = runs.filter_map(|run| {
            IndexRange::new(run.first(), run.end().min(end).checked_sub(run.first())?).ok()
        });
        let runs: Vec<IndexRange> = runs.collect();
        let parts = runs.chunks(RANGES_MAX).count();
        let mut first = 0;
        let mut claims = Vec::new();
        for (n, part) in runs.chunks(RANGES_MAX).enumerate() {
            let part_end = if n + 1 == parts {
                end
            } else {
                part[part.len() - 1].end()
            };
            let ranges = IndexRanges::try_from(part.to_vec()).expect("a set's runs rise");
            claims.push(Claim {
                lease,
                first,
                end: part_end,
                ranges,
            });
            first = part_end;
        }
        if claims.is_empty() {
            claims.push(Claim {
                lease,
                first: 0,
                end,
                ranges: IndexRanges::default(),
            });
        }
        claims
    }
}
