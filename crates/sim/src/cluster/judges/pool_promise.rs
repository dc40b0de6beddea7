//! What pools promise of their pages, and what a read that found something else breaks.

use super::page_versions::PageState;
use crate::cluster::verdict::ClusterJudge;

/// What a pool promises of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum PoolPromise {
    /// A disk's: each page is there from the beginning, in version 0, and can always be read.
    Disk,
    /// A page may vanish, and a hit takes it.
    Taking,
    /// A page may vanish, and a hit leaves it.
    Keeping,
    /// A page that is stored stays until it is flushed or put again.
    Persistent,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum FoundPage {
    /// Nothing.
    Nothing,
    /// The page that was asked for, in this version.
    Version(u32),
    /// Another page, or bytes that nobody wrote.
    Other,
}

impl PoolPromise {
    /// What a page is before the first call.
    pub(in crate::cluster) fn at_first(self) -> PageState {
        match self {
            PoolPromise::Disk => Some(0),
            PoolPromise::Taking | PoolPromise::Keeping | PoolPromise::Persistent => None,
        }
    }

    /// Which judge objects to what a read found, while the page may be what `may_be` says.
    pub(in crate::cluster) fn objects(
        self,
        found: FoundPage,
        may_be: impl Fn(PageState) -> bool,
    ) -> Option<ClusterJudge> {
        match (found, self) {
            (FoundPage::Version(version), _) if may_be(Some(version)) => None,
            (FoundPage::Version(_) | FoundPage::Other, _) => Some(ClusterJudge::Content),
            (FoundPage::Nothing, PoolPromise::Taking | PoolPromise::Keeping) => None,
            (FoundPage::Nothing, PoolPromise::Persistent) if may_be(None) => None,
            (FoundPage::Nothing, PoolPromise::Persistent | PoolPromise::Disk) => {
                Some(ClusterJudge::Lost)
            }
        }
    }

    /// Whether a page that may vanish is gone after a read that found this.
    pub(in crate::cluster) fn is_gone_after(self, found: FoundPage) -> bool {
        match self {
            PoolPromise::Taking => true,
            PoolPromise::Keeping => found == FoundPage::Nothing,
            PoolPromise::Disk | PoolPromise::Persistent => false,
        }
    }
}
