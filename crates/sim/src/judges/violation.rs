//! What judges find.

use std::fmt;

use crate::machine::tier::TierPage;
use crate::virtual_time::VirtualInstant;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// A page came back with a content that was not put last.
    #[error("{0} came back with another content than was put")]
    Content(PageLabel),
    /// A page came back after a miss, a flush, a refused put or an exclusive get.
    #[error("{0} came back though it was gone")]
    StalePage(PageLabel),
    /// A persistent page did not come back.
    #[error("{0}, persistent, was lost")]
    Lost(PageLabel),
    /// A tenant uses more than it holds.
    #[error("tenant {0} uses {1} pages and holds {2}")]
    UsedAboveHeld(u16, u64, u64),
    /// Held and free pages do not make up the whole.
    #[error("{held} pages held and {free} free do not make the whole of {total}")]
    Sum {
        /// Pages that tenants hold.
        held: u64,
        /// Free pages.
        free: u64,
        /// The whole.
        total: u64,
    },
    /// Tenants hold more than there is, and were not brought down in time.
    #[error(
        "{held} pages are held, and the whole has been {total} for longer than giving back takes"
    )]
    OverTotal {
        /// Pages that tenants hold.
        held: u64,
        /// The whole.
        total: u64,
    },
    /// A tier's counts do not match the events.
    #[error("tenant {tenant}: the tier counts {counted} {what}, {happened} happened")]
    Count {
        /// The tenant.
        tenant: u16,
        /// What is counted.
        what: &'static str,
        /// What the tier counted.
        counted: u64,
        /// What really happened.
        happened: u64,
    },
    /// A tenant was not brought down to its target in time.
    #[error(
        "tenant {tenant} holds {held} pages, its target has been {target} for longer than that takes"
    )]
    OverTarget {
        /// The tenant.
        tenant: u16,
        /// What it holds.
        held: u64,
        /// What it may hold.
        target: u64,
    },
}

/// A page as text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLabel(pub TierPage);

impl fmt::Display for PageLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TierPage {
            tenant,
            pool,
            object,
            index,
        } = self.0;
        write!(
            f,
            "page {index} of object {object}, {pool:?} pool of tenant {}",
            tenant.0
        )
    }
}

/// What a judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// When.
    pub at: VirtualInstant,
    /// Who found it.
    pub judge: &'static str,
    /// What.
    pub wrong: Violation,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:.6} s, {}: {}",
            self.at.secs(),
            self.judge,
            self.wrong
        )
    }
}
