//! Judges watch the tier while it runs. Each judge sees every event, and reports what must not happen.

mod content;
mod counts;
mod frames;
mod judged_tier;
mod lateness;
mod panel;
mod targets;
mod violation;

use sublet_types::{Pages, TenantId};

use crate::machine::tier::{
    PageStamp, PoolKind, TierCounts, TierGetOutcome, TierPage, TierPutOutcome,
};
use crate::virtual_time::VirtualInstant;

pub(crate) use judged_tier::{CensusInterval, JudgedTier};
pub(crate) use panel::JudgePanel;
pub(crate) use violation::{PageLabel, Verdict, Violation};

/// Watches the tier and reports violations.
pub(crate) trait Judge {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Takes in an event, and returns what is wrong with it.
    fn check(&mut self, at: VirtualInstant, event: &TierEvent<'_>) -> Option<Violation>;
}

/// An event of the tier.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TierEvent<'a> {
    /// A page was put.
    Put(TierPage, PageStamp, TierPutOutcome),
    /// A page was looked for.
    Get(TierPage, TierGetOutcome),
    /// A page was flushed.
    FlushedPage(TierPage),
    /// An object was flushed.
    FlushedObject(TenantId, PoolKind, u64),
    /// A tenant has another target.
    Target(TenantId, Option<Pages>),
    /// Everything was counted.
    Counts(&'a TierCounts),
}

#[cfg(test)]
mod tests;
