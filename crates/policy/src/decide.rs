//! What a policy is: it takes statistics, and returns targets and the reasons for them.

use std::fmt;

use sublet_types::Snapshot;

use crate::clamp;
use crate::decision::{Decision, Proposal};

/// Who says how much memory a host asks of other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskingRule {
    /// The host, by what its tenants evicted.
    ByHost,
    /// The policy, by what is wanted beyond the targets.
    ByPolicy,
}

/// A function from statistics to targets. It has a memory of its own, but no clock, no random numbers and no access to
/// the world.
pub trait Policy: fmt::Debug + Send {
    /// Proposes what each tenant of the snapshot should hold, in the snapshot's order. A policy ignores floors and
    /// ceilings, and its sum may exceed the total: [`Policy::decide`] settles both.
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal>;

    /// Whether what is `wanted` of each proposal is what the host asks of other hosts. Otherwise the host asks by a
    /// figure of its own.
    fn asking(&self) -> AskingRule {
        AskingRule::ByHost
    }

    /// Decides what every tenant may hold from now on, and why: the proposal within floors, ceilings and the total.
    fn decide(&mut self, snapshot: &Snapshot) -> Decision {
        clamp::settle(snapshot, self.propose(snapshot))
    }
}
