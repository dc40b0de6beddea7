//! Who watches the tier while it runs: each judge hears of everything that happens to it, and says what may
//! not be.

mod content;
mod court;
mod frames;
mod judged;
mod late;
mod sums;
mod targets;
mod wrong;

use sublet_types::{Pages, TenantId};

use crate::machine::tier::{Census, Get, Pool, Put, Stamp, TierPage};
use crate::virtual_time::Moment;

pub(crate) use court::Court;
pub(crate) use judged::{CountedAfter, Judged};
pub(crate) use wrong::{PageLabel, Verdict, Wrong};

/// One who watches.
pub(crate) trait Judge {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Hears of what happened, and says what is wrong with it.
    fn hear(&mut self, at: Moment, happening: &Happening<'_>) -> Option<Wrong>;
}

/// Something that happened to the tier.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening<'a> {
    /// A page was put.
    Put(TierPage, Stamp, Put),
    /// A page was looked for.
    Get(TierPage, Get),
    /// A page was flushed.
    FlushedPage(TierPage),
    /// An object was flushed.
    FlushedObject(TenantId, Pool, u64),
    /// A tenant has another target.
    Target(TenantId, Option<Pages>),
    /// Everything was counted.
    Counted(&'a Census),
}

#[cfg(test)]
mod tests;
