//! Calls of clients, once their lines make sense.

use std::fmt;

use crate::cluster::judges::{FoundPage, PageState};
use crate::virtual_time::VirtualInstant;

/// Calls of a history.
pub(super) const CALLS_MAX: usize = 20_000_000;
/// Pages of one call.
pub(super) const CALL_PAGES_MAX: usize = 1024;
/// Pages of a pool: 64 GiB of them.
pub(super) const PAGES_MAX: u64 = 1 << 24;

/// What a client asked for, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct HistoryCall {
    /// Where it stands: a file by its place among all, and the line.
    pub(super) file: usize,
    pub(super) line: u64,
    /// By their places among all.
    pub(super) client: usize,
    pub(super) pool: usize,
    pub(super) page: u32,
    pub(super) began: VirtualInstant,
    /// [`VirtualInstant::NEVER`] if there was no answer.
    pub(super) ended: VirtualInstant,
    pub(super) verb: CallVerb,
}

/// What a call did to each page of its run.
#[derive(Clone, Debug)]
pub(super) enum CallVerb {
    /// Made it this: a version, or gone if the page was refused.
    Make(Vec<PageState>),
    /// Found this.
    Find(Vec<FoundContent>),
}

impl CallVerb {
    /// How many pages it is of.
    pub(super) fn pages(&self) -> usize {
        match self {
            CallVerb::Make(states) => states.len(),
            CallVerb::Find(found) => found.len(),
        }
    }
}

/// What a read found, in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundContent {
    /// Nothing.
    Nothing,
    /// The page that was asked for, in this version.
    Version(u32),
    /// Another page, in words.
    Other(Box<str>),
}

impl FoundContent {
    /// What the judge needs to know of it.
    pub(super) fn kind(&self) -> FoundPage {
        match self {
            FoundContent::Nothing => FoundPage::Nothing,
            FoundContent::Version(version) => FoundPage::Version(*version),
            FoundContent::Other(_) => FoundPage::Other,
        }
    }
}

impl fmt::Display for FoundContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundContent::Nothing => f.write_str("nothing"),
            FoundContent::Version(version) => write!(f, "version {version}"),
            FoundContent::Other(what) => f.write_str(what),
        }
    }
}
