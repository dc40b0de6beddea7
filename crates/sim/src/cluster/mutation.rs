//! Rules that a run can leave out, one at a time, to show that a judge finds it.

use std::fmt;
use std::str::FromStr;

use super::leadership::Leadership;
use super::verdict::ClusterJudge;

/// A rule that a run leaves out. The code that the daemon runs keeps all its rules: what leaves one out is the simulated
/// host around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// The number of the write is not in the nonce of the seal.
    NonceWithoutSequence,
    /// An index whose block is gone stands for another block of the lease.
    IndexUsedAgain,
    /// A lender finds a block by its number, and does not look for whom it is lent.
    RecallWithoutGeneration,
    /// A page that came too late is a miss, and stays in the directory.
    WhereaboutsKept,
    /// A peer that runs anew is taken for the one before.
    IncarnationIgnored,
    /// Page requests of a session that is over are served.
    OldSessionServed,
    /// Writes that were not answered when their connection ended count as done.
    LateDoneBelieved,
    /// Writes that were not answered when their connection ended are forgotten.
    UnansweredForgotten,
    /// Nobody asks, or says, which blocks a borrower has.
    AuditIgnored,
    /// A lender does not note which blocks its store took back.
    TakenNotNoted,
    /// A borrower keeps blocks that their lender took.
    RecalledKept,
    /// A borrower keeps blocks that hold nothing.
    IdleKept,
    /// The bytes that a lender gives are believed.
    SealUnchecked,
    /// A read waits for its answer for ever.
    NoTimeLimit,
    /// A host that needs memory asks its borrowers first.
    RecallAsks,
    /// A page that is written goes to memory alone.
    BackingUnwritten,
    /// The advice of a leader counts whatever its term.
    LowerTermObeyed,
    /// A borrower waits for a leader that says nothing.
    SilentLeaderAwaited,
    /// A new leader advises nobody before its predecessor reports.
    PredecessorAwaited,
    /// The lease of a leader lives on, whoever renews it.
    LeaderLeaseKept,
    /// What a leader advises is as good as what a lender grants.
    AdviceGrants,
}

/// A word that names no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} names no rule; the rules are {}", known())]
pub struct UnknownMutation {
    word: String,
}

fn known() -> String {
    let names: Vec<&str> = Mutation::ALL.iter().map(|rule| rule.name()).collect();
    names.join(", ")
}

impl Mutation {
    /// Every rule that can be left out.
    pub const ALL: [Mutation; 21] = [
        Mutation::NonceWithoutSequence,
        Mutation::IndexUsedAgain,
        Mutation::RecallWithoutGeneration,
        Mutation::WhereaboutsKept,
        Mutation::IncarnationIgnored,
        Mutation::OldSessionServed,
        Mutation::LateDoneBelieved,
        Mutation::UnansweredForgotten,
        Mutation::AuditIgnored,
        Mutation::TakenNotNoted,
        Mutation::RecalledKept,
        Mutation::IdleKept,
        Mutation::SealUnchecked,
        Mutation::NoTimeLimit,
        Mutation::RecallAsks,
        Mutation::BackingUnwritten,
        Mutation::LowerTermObeyed,
        Mutation::SilentLeaderAwaited,
        Mutation::PredecessorAwaited,
        Mutation::LeaderLeaseKept,
        Mutation::AdviceGrants,
    ];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mutation::NonceWithoutSequence => "nonce-without-sequence",
            Mutation::IndexUsedAgain => "index-used-again",
            Mutation::RecallWithoutGeneration => "recall-without-generation",
            Mutation::WhereaboutsKept => "whereabouts-kept",
            Mutation::IncarnationIgnored => "incarnation-ignored",
            Mutation::OldSessionServed => "old-session-served",
            Mutation::LateDoneBelieved => "late-done-believed",
            Mutation::UnansweredForgotten => "unanswered-forgotten",
            Mutation::AuditIgnored => "audit-ignored",
            Mutation::TakenNotNoted => "taken-not-noted",
            Mutation::RecalledKept => "recalled-kept",
            Mutation::IdleKept => "idle-kept",
            Mutation::SealUnchecked => "seal-unchecked",
            Mutation::NoTimeLimit => "no-time-limit",
            Mutation::RecallAsks => "recall-asks",
            Mutation::BackingUnwritten => "backing-unwritten",
            Mutation::LowerTermObeyed => "lower-term-obeyed",
            Mutation::SilentLeaderAwaited => "silent-leader-awaited",
            Mutation::PredecessorAwaited => "predecessor-awaited",
            Mutation::LeaderLeaseKept => "leader-lease-kept",
            Mutation::AdviceGrants => "advice-grants",
        }
    }

    /// The ways to lead with which the rule is there. A seed draws one of them.
    pub(super) fn shows_with(self) -> &'static [Leadership] {
        match self {
            Mutation::LowerTermObeyed
            | Mutation::SilentLeaderAwaited
            | Mutation::PredecessorAwaited
            | Mutation::LeaderLeaseKept => &[Leadership::Etcd],
            Mutation::AdviceGrants => &[Leadership::Static, Leadership::Etcd],
            _ => &Leadership::ALL,
        }
    }

    /// The judge that is to find it.
    pub fn found_by(self) -> ClusterJudge {
        match self {
            Mutation::IndexUsedAgain
            | Mutation::RecallWithoutGeneration
            | Mutation::IncarnationIgnored
            | Mutation::OldSessionServed
            | Mutation::AdviceGrants => ClusterJudge::Owner,
            Mutation::WhereaboutsKept | Mutation::SealUnchecked => ClusterJudge::Content,
            Mutation::NonceWithoutSequence | Mutation::LateDoneBelieved => ClusterJudge::Seal,
            Mutation::UnansweredForgotten
            | Mutation::AuditIgnored
            | Mutation::TakenNotNoted
            | Mutation::RecalledKept
            | Mutation::IdleKept => ClusterJudge::Books,
            Mutation::NoTimeLimit
            | Mutation::LowerTermObeyed
            | Mutation::SilentLeaderAwaited
            | Mutation::PredecessorAwaited
            | Mutation::LeaderLeaseKept => ClusterJudge::Calm,
            Mutation::RecallAsks => ClusterJudge::Recall,
            Mutation::BackingUnwritten => ClusterJudge::Lost,
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(word: &str) -> Result<Mutation, UnknownMutation> {
        let found = Mutation::ALL.into_iter().find(|rule| rule.name() == word);
        found.ok_or_else(|| UnknownMutation {
            word: word.to_owned(),
        })
    }
}
