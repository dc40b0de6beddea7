//! What the Memory Manager sees and decides: statistics in, targets out.
//!
//! The figures are those of SmarTmem's Table I and vMCA's Table I. The papers' names stand in parentheses.

use serde::{Deserialize, Serialize};

use crate::{Pages, Second, TenantId, Weight};

/// All tenants and the arena at one instant. Counts cover the interval since the last snapshot unless a field says
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Second,
    /// What tenants may hold together: the arena's limit less what belongs to no tenant (`total_tmem`), and what lenders
    /// have lent.
    pub total: Pages,
    /// Of that, what nobody holds (`free_tmem`).
    pub free: Pages,
    /// Each tenant (`vm_count` is their number).
    pub tenants: Vec<TenantSnapshot>,
}

/// One tenant's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSnapshot {
    /// The tenant.
    pub id: TenantId,
    /// Its weight (Mortar §5.2); also Synergy's allocation ratio.
    pub weight: Weight,
    /// What other tenants never take from it.
    pub floor: Option<Pages>,
    /// The most that it ever holds here, and what it holds at lenders.
    pub ceiling: Option<Pages>,
    /// The pages of the blocks that it holds, here and at lenders.
    pub held: Pages,
    /// The live part of that (`tmem_used`).
    pub used: Pages,
    /// What it may hold now (`mm_target`). `None` while no policy has set a target.
    pub target: Option<Pages>,
    /// Puts in the interval (`puts_total`), including items that were stored.
    pub puts: u64,
    /// Of these, puts that found room without displacing anything of the tenant's own (`puts_succ`).
    pub puts_succeeded: u64,
    /// Puts since the start. They tell whether the tenant was ever active.
    pub puts_ever: u64,
    /// Puts that found no room since the start (`cumul_puts_failed`).
    pub puts_failed_ever: u64,
    /// Gets in the interval.
    pub gets: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Pages flushed in the interval.
    pub flushes: u64,
    /// Of the used pages, those that are shared with others (Synergy).
    pub shared: Pages,
    /// The hits that it would have with more or less memory, if they are measured.
    pub curve: Option<Curve>,
}

impl TenantSnapshot {
    /// Puts of the interval that found no room (`failed_puts`).
    pub fn puts_failed(&self) -> u64 {
        self.puts.saturating_sub(self.puts_succeeded)
    }
}

/// Hits per second as a function of memory: a miss-ratio curve, upside down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Memory, and the hits per second with it. Both ascend from (0, 0).
    pub points: Vec<(Pages, f64)>,
}

/// What every tenant may hold from now on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// For each tenant of the snapshot, in its order.
    pub tenants: Vec<Target>,
    /// Memory that no tenant was assigned.
    pub unassigned: Pages,
}

/// What one tenant may hold from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The tenant.
    pub id: TenantId,
    /// How much it may hold. `None` binds it by its ceiling only.
    pub pages: Option<Pages>,
    /// How much it would ask of other nodes (vMCA's first level).
    pub wanted: Pages,
    /// What it keeps in any case if all tenants' memory is one pool, from which the oldest content goes first. `None`
    /// if weights decide which tenant gives way.
    pub guard: Option<Pages>,
    /// When it gives up what it holds beyond that.
    pub giving: GiveWayOrder,
}

/// When a tenant gives way if all tenants' memory is one pool and nothing is free. The variants are in the order in
/// which tenants give way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GiveWayOrder {
    /// Before every other tenant, and also for its own puts. More memory brings it hardly anything.
    First,
    /// When what it would lose next is the oldest of all tenants.
    #[default]
    ByAge,
}

/// What happens to a tenant that holds more than its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShrinkMode {
    /// The store brings it down to the target at a bounded rate, coldest pages first.
    #[default]
    Active,
    /// It keeps what it has until it flushes, as in the papers.
    Never,
}
