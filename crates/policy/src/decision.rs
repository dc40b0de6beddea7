//! What a policy proposes, and what is decided of it.

use sublet_types::{Giving, Pages, Targets};

use crate::explain::{Explanation, Reason};

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
