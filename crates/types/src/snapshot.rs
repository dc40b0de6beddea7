//! What the Memory Manager sees and what it decides: statistics in, targets out.
//!
//! The figures are those of SmarTmem's Table I and vMCA's Table I; the papers' names stand beside ours.

use serde::{Deserialize, Serialize};

use crate::{Pages, Second, TenantId, Weight};

/// All tenants and the whole, at one instant; counts are of the interval since the last snapshot unless
/// said otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Second,
    /// What tenants may hold together: the arena's limit less what is nobody's (`total_tmem`).
    pub total: Pages,
    /// Of that, what nobody holds (`free_tmem`).
    pub free: Pages,
    /// Each tenant (`vm_count` is their number).
    pub tenants: Vec<TenantSnapshot>,
}

/// One tenant's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSnapshot {
    /// Who.
    pub id: TenantId,
    /// Its weight (Mortar §5.2); also Synergy's allocation ratio.
    pub weight: Weight,
    /// What others never take from it.
    pub floor: Option<Pages>,
    /// What it never holds more than.
    pub ceiling: Option<Pages>,
    /// What it holds: its blocks.
    pub held: Pages,
    /// What lives in that (`tmem_used`).
    pub used: Pages,
    /// What it may hold now (`mm_target`); `None` while no policy has said so.
    pub target: Option<Pages>,
    /// Puts in the interval (`puts_total`), items stored among them.
    pub puts: u64,
    /// Of these, the ones that found room without displacing anything of their own (`puts_succ`).
    pub puts_succeeded: u64,
    /// Puts since the start (whether it was ever active).
    pub puts_ever: u64,
    /// Puts that found no room since the start (`cumul_puts_failed`).
    pub puts_failed_ever: u64,
    /// Gets in the interval.
    pub gets: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Pages flushed in the interval.
    pub flushes: u64,
    /// Of what is used, what is shared with others (Synergy).
    pub shared: Pages,
    /// Hits that it would have with more or less memory, where they are measured.
    pub curve: Option<Curve>,
}

impl TenantSnapshot {
    /// Puts of the interval that found no room (`failed_puts`).
    pub fn puts_failed(&self) -> u64 {
        self.puts.saturating_sub(self.puts_succeeded)
    }
}

/// Hits in a second as a function of memory: a miss-ratio curve, upside down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Memory and the hits in a second with it; both ascend, from (0, 0) on.
    pub points: Vec<(Pages, f64)>,
}

/// What every tenant may hold from now on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// For each tenant of the snapshot, in its order.
    pub tenants: Vec<Target>,
    /// What was given to nobody.
    pub unassigned: Pages,
}

/// What one tenant may hold from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Who.
    pub id: TenantId,
    /// How much; `None` binds it by its ceiling only.
    pub pages: Option<Pages>,
    /// What it would ask of other nodes (vMCA's first level).
    pub wanted: Pages,
    /// What it keeps in any case where all tenants' memory is one pool, of which the oldest goes first, whoever's it is; `None`
    /// where weights decide who gives way.
    pub guard: Option<Pages>,
    /// When it gives of what it holds beyond that.
    pub giving: Giving,
}

/// When a tenant gives way where all tenants' memory is one pool and nothing is free; in the order in which they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Giving {
    /// Before everybody else, and for its own puts: more memory brings it hardly anything.
    First,
    /// When what it would lose next is the oldest of all.
    #[default]
    ByAge,
}

/// What becomes of who holds more than its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shrinking {
    /// It is brought down to it, coldest pages first, at a bounded rate.
    #[default]
    Active,
    /// It keeps what it has until it flushes: what the papers did.
    Never,
}
