//! What a policy is: statistics in, targets and the reasons for them out.

use std::fmt;

use sublet_types::Snapshot;

use crate::clamp;
use crate::decision::{Decision, Proposal};

/// A function from statistics to targets, with a memory of its own and nothing else: no clock, no luck, no world.
pub trait Policy: fmt::Debug + Send {
    /// What it would have each tenant of the snapshot hold, in the snapshot's order. Floors and ceilings are not its
    /// business, and the sum may exceed the total: [`Policy::decide`] settles both.
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal>;

    /// What every tenant may hold from now on, and why: the proposal within floors, ceilings and the total.
    fn decide(&mut self, snapshot: &Snapshot) -> Decision {
        clamp::settle(snapshot, self.propose(snapshot))
    }
}
