//! What a policy is: statistics in, targets and the reasons for them out.

use std::fmt;

use sublet_types::{Giving, Pages, Snapshot, Targets};

use crate::clamp;
use crate::explain::{Explanation, Reason};

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

/// What a policy would have one tenant hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// How much; `None` binds it by its ceiling only.
    pub pages: Option<Pages>,
    /// What it would ask of other nodes.
    pub wanted: Pages,
    /// What it would have the tenant keep in any case, with all tenants' memory one pool; `None` where weights are to decide.
    pub guard: Option<Pages>,
    /// When the tenant gives of what it holds beyond that.
    pub giving: Giving,
    /// Why.
    pub reason: Reason,
}

impl Proposal {
    /// So many pages, nothing asked of others.
    pub(crate) fn of(pages: u64, reason: Reason) -> Proposal {
        Proposal {
            pages: Some(Pages(pages)),
            wanted: Pages(0),
            guard: None,
            giving: Giving::ByAge,
            reason,
        }
    }

    /// No target.
    pub(crate) fn unbound(reason: Reason) -> Proposal {
        Proposal {
            pages: None,
            wanted: Pages(0),
            guard: None,
            giving: Giving::ByAge,
            reason,
        }
    }
}

/// What was decided, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What every tenant may hold from now on.
    pub targets: Targets,
    /// Why, for each tenant in the same order.
    pub explanations: Vec<Explanation>,
}
