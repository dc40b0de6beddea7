//! What a policy proposes, and what is decided from that.

use sublet_types::{GiveWayOrder, Pages, Targets};

use crate::explain::{Explanation, Reason};

/// What a policy proposes that one tenant should hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// How much. `None` means that only the tenant's ceiling limits it.
    pub pages: Option<Pages>,
    /// What the tenant would ask of other nodes.
    pub wanted: Pages,
    /// What the tenant keeps in any case, when all tenants' memory is one pool. `None` if weights decide.
    pub guard: Option<Pages>,
    /// When the tenant gives up what it holds beyond that.
    pub giving: GiveWayOrder,
    /// Why.
    pub reason: Reason,
}

impl Proposal {
    /// A target of `pages`, with nothing asked of other nodes.
    pub(crate) fn of(pages: u64, reason: Reason) -> Proposal {
        Proposal {
            pages: Some(Pages(pages)),
            wanted: Pages(0),
            guard: None,
            giving: GiveWayOrder::ByAge,
            reason,
        }
    }

    /// No target.
    pub(crate) fn unbound(reason: Reason) -> Proposal {
        Proposal {
            pages: None,
            wanted: Pages(0),
            guard: None,
            giving: GiveWayOrder::ByAge,
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
