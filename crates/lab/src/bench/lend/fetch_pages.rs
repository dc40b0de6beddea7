//! What all servers of the bench have in common: pages are fetched from them.

use std::time::Duration;

use super::error::LendBenchError;

/// A client of a server that holds pages.
pub(super) trait FetchPages {
    /// The number of pages that may be fetched.
    fn len(&self) -> usize;

    /// Fetches the pages at these places, with one message.
    ///
    /// # Errors
    ///
    /// A page did not come, or is another.
    fn fetch(&mut self, places: &[usize]) -> Result<FetchedPages, LendBenchError>;
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FetchedPages {
    /// From asking to having the pages.
    pub(super) took: Duration,
    /// Pages that were given up because they came too late.
    pub(super) late: usize,
}
