//! What a node and one peer did with each other since the start.

use std::collections::BTreeMap;

use crate::control::GrantLimit;

/// What a node and one peer did with each other since the start. Amounts are blocks unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// What the peer was granted.
    pub granted: u64,
    /// How often it was granted less than it asked for, by reason.
    pub refusals: BTreeMap<GrantLimit, u64>,
    /// What it returned.
    pub returned_by_peer: u64,
    /// What was taken back from it.
    pub recalled: u64,
    /// What it did not claim.
    pub unclaimed: u64,
    /// What leases had that it lost at once: it stayed away, began anew, said goodbye, or was shut out.
    pub ended: u64,
    /// What it granted.
    pub borrowed: u64,
    /// How often it granted less than it was asked for, by reason.
    pub refused_by_peer: BTreeMap<GrantLimit, u64>,
    /// What was returned to it.
    pub returned: u64,
    /// What it took back.
    pub taken_by_peer: u64,
    /// What leases of it had that ended at once: it stayed away, began anew, said goodbye, or was shut out.
    pub borrows_ended: u64,
    /// How many sessions there were.
    pub sessions: u64,
    /// How often it was shut out.
    pub shuts: u64,
    /// How many connections of it were turned away because it was shut out or denied, or because the node had left.
    pub turned_away: u64,
    /// How many lines of unknown kinds it sent.
    pub lines_unknown: u64,
    /// How many messages it sent about leases that are no more. Some are normal when messages cross.
    pub lines_late: u64,
}
