//! How a cluster stands, as its leader sees it.

use std::time::Duration;

use sublet_policy::placement::{AdviceReason, ShortageReason};

use super::pair_books::PairMismatch;
use crate::ids::{NodeName, RackName, Term};

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterNodeState {
    /// It is a member and has not reported to this leader yet.
    Expected,
    /// It reports.
    Active,
    /// It leaves: it neither lends nor borrows any more.
    Leaving,
    /// It is silent.
    Away,
    /// It left, or was silent for long.
    Gone,
}

/// A node as it reported last. All amounts are blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodeStatus {
    /// Its name.
    pub name: NodeName,
    /// Whether it takes part.
    pub state: ClusterNodeState,
    /// Since when.
    pub since: Duration,
    /// Where it stands, if it says so.
    pub rack: Option<RackName>,
    /// What its arena may have.
    pub total: u32,
    /// What of that nobody uses.
    pub free: u32,
    /// What it would lend beyond what it has lent.
    pub lendable: u32,
    /// What it wants beyond what it has.
    pub wanted: u32,
    /// What it has lent.
    pub lent: u32,
    /// What it has borrowed.
    pub borrowed: u32,
}

/// Advice that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenAdvice {
    /// When.
    pub at: Duration,
    /// Who should borrow.
    pub borrower: NodeName,
    /// Of whom.
    pub lender: NodeName,
    /// How many blocks.
    pub blocks: u32,
    /// Why of this lender.
    pub why: AdviceReason,
    /// Why the borrower is to have less than it wants, if so.
    pub shortage: Option<ShortageReason>,
}

/// How a cluster stands, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The leader's term.
    pub term: Term,
    /// Since when it leads.
    pub since: Duration,
    /// The nodes by name.
    pub nodes: Vec<ClusterNodeStatus>,
    /// The latest advice, the oldest first.
    pub advice: Vec<GivenAdvice>,
    /// Pairs whose counts have differed for too long.
    pub alarms: Vec<PairMismatch>,
}
