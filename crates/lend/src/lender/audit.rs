//! Finds blocks that a borrower does not know of, and indices that it still counts after they are gone.
//!
//! A ping says how many blocks of each lease the borrower holds. If a count differs, messages are on their way, or were
//! lost with a connection. When it has differed for [`UNCLAIMED_FOR`], the lender asks which indices the borrower has.
//! Messages of a session keep their order. So an index that was granted before the question and is not in the answer is
//! not held.

use std::time::Duration;

use super::lent_lease::OpenAudit;
use super::loan_table::{FreedBlocks, LoanTable};
use crate::control::{Claim, HeldCounts, LeaseAudit};
use crate::ids::{LeaseId, PeerId};
use crate::index_set::{IndexRange, IndexRanges, IndexSet};

/// How long blocks stay that a borrower does not claim.
pub const UNCLAIMED_FOR: Duration = Duration::from_secs(10);

/// What a lender does about a borrower's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldMismatch {
    /// It asks which indices the borrower has.
    Ask(LeaseAudit),
    /// It tells the borrower that the lease is over.
    Unknown(LeaseId),
}

/// What follows from a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimOutcome {
    /// Blocks that the borrower has not claimed for too long.
    pub freed: FreedBlocks,
    /// Indices that it claims and that are gone, in parts that fit a message.
    pub gone: Vec<IndexRanges>,
}

impl LoanTable {
    /// Compares what a borrower says that it holds with what is lent to it.
    pub fn compare_held(
        &mut self,
        peer: PeerId,
        now: Duration,
        held: &HeldCounts,
    ) -> Vec<HeldMismatch> {
        let Some(loans) = self.peers.get_mut(peer.slot()) else {
            return Vec::new();
        };
        let mut mismatches = Vec::new();
        for (id, lease) in &mut loans.leases {
            if held.of(*id) != lease.lent() {
                lease.mismatch_since.get_or_insert(now);
            } else if lease.open_audit.is_none() {
                lease.mismatch_since = None;
            }
            let is_long = lease
                .mismatch_since
                .is_some_and(|since| now >= since + UNCLAIMED_FOR);
            if is_long && lease.open_audit.is_none() {
                let audit = LeaseAudit {
                    lease: *id,
                    end: lease.open_audit(),
                };
                mismatches.push(HeldMismatch::Ask(audit));
            }
        }
        let is_known = |lease: LeaseId| loans.leases.iter().any(|(id, _)| *id == lease);
        let unknown = held
            .iter()
            .map(|(lease, _)| lease)
            .filter(|lease| !is_known(*lease));
        mismatches.extend(unknown.map(HeldMismatch::Unknown));
        mismatches
    }

    /// The questions at the beginning of a session that goes on with leases. What the borrower missed is found so.
    pub fn audit_all(&mut self, peer: PeerId) -> Vec<LeaseAudit> {
        let leases = self.peers[peer.slot()].leases.iter_mut();
        let audits = leases.map(|(id, lease)| LeaseAudit {
            lease: *id,
            end: lease.open_audit(),
        });
        audits.collect()
    }

    /// Compares one part of a borrower's answer with the table. Parts come in order. `None` if this one was not
    /// asked for.
    pub fn claimed(&mut self, peer: PeerId, now: Duration, claim: &Claim) -> Option<ClaimOutcome> {
        let lease = self.peers.get_mut(peer.slot())?.lease_mut(claim.lease)?;
        let is_next = |audit: &OpenAudit| {
            claim.first == audit.next
                && (audit.next < claim.end || claim.end == audit.end)
                && claim.end <= audit.end
        };
        let audit = lease.open_audit.filter(is_next)?;
        let claimed = claim.ranges.as_slice();
        let is_inside =
            |range: &IndexRange| range.first() >= claim.first && range.end() <= claim.end;
        if !claimed.iter().all(is_inside) {
            return None;
        }
        let lent = lease.lent_within(claim.first, claim.end);
        let mut unclaimed: IndexSet = lent.map(|(index, _)| index).collect();
        for range in claimed {
            unclaimed.remove(*range);
        }
        let gone = lease.gone_of(claimed).messages();
        let is_last = claim.end == audit.end;
        lease.open_audit = Some(OpenAudit {
            next: claim.end,
            ..audit
        })
        .filter(|_| !is_last);
        let is_overdue = lease
            .mismatch_since
            .is_some_and(|since| now >= since + UNCLAIMED_FOR);
        let mut blocks = Vec::new();
        if is_overdue {
            blocks = unclaimed
                .runs()
                .flat_map(|range| lease.take_range(range))
                .collect();
            lease.mismatch_since = lease.mismatch_since.filter(|_| !is_last);
        } else if !unclaimed.is_empty() {
            lease.mismatch_since.get_or_insert(now);
        }
        let freed = self.freed(peer, claim.lease, blocks);
        Some(ClaimOutcome { freed, gone })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::control::BlockCount;
    use crate::ids::{Incarnation, LentBlock, SessionId};

    /// A ping that crosses a grant says less than was lent. That is no reason to ask ten seconds later.
    #[test]
    fn only_a_difference_that_lasts_is_asked_about() {
        let (peer, secs) = (PeerId(0), Duration::from_secs);
        let mut loans = LoanTable::new(1);
        loans.begin_session(peer, Incarnation(1), SessionId(1));
        let block = LentBlock {
            block: 3,
            opening: 0,
        };
        let lease = loans.grant(peer, &[block]).lease;
        let held = |blocks| {
            let held = BTreeMap::from([(lease, BlockCount::saturating(blocks))]);
            HeldCounts::try_from(held).expect("one lease")
        };
        let mut compare = |second, blocks| loans.compare_held(peer, secs(second), &held(blocks));
        assert!(compare(0, 0).is_empty());
        assert!(compare(1, 1).is_empty());
        assert!(compare(11, 0).is_empty());
        assert!(compare(20, 0).is_empty());
        assert!(matches!(compare(21, 0)[..], [HeldMismatch::Ask(_)]));
    }
}
