//! Lines of a history.

use serde::Deserialize;

use super::call::FoundContent;
use crate::cluster::judges::PoolPromise;

/// A line: a pool that is declared, or a call of a run of pages that follow each other. Times are in nanoseconds.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum HistoryLine {
    /// Declares what a pool promises.
    Pool { pool: String, promise: Promise },
    /// Pages were written, or put.
    Write {
        client: String,
        began: u64,
        /// `null` if there was no answer.
        ended: Option<u64>,
        pool: String,
        page: u64,
        /// Each page's version; `null` if it was refused.
        wrote: Vec<Option<u32>>,
    },
    /// Pages were read, or got.
    Read {
        client: String,
        began: u64,
        ended: u64,
        pool: String,
        page: u64,
        found: Vec<Found>,
    },
    /// Pages were flushed.
    Flush {
        client: String,
        began: u64,
        /// `null` if there was no answer.
        ended: Option<u64>,
        pool: String,
        page: u64,
        pages: usize,
    },
}

/// What a pool promises.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Promise {
    Disk,
    Taking,
    Keeping,
    Persistent,
}

impl From<Promise> for PoolPromise {
    fn from(promise: Promise) -> PoolPromise {
        match promise {
            Promise::Disk => PoolPromise::Disk,
            Promise::Taking => PoolPromise::Taking,
            Promise::Keeping => PoolPromise::Keeping,
            Promise::Persistent => PoolPromise::Persistent,
        }
    }
}

/// What a page was found to be.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a version, null, \"damaged\", or {\"pool\": …, \"page\": …, \"version\": …}"
)]
pub(super) enum Found {
    Nothing(()),
    /// The page that was asked for.
    Version(u32),
    Other(OtherPage),
    Damaged(DamagedWord),
}

/// A page that says of itself that it is another one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OtherPage {
    pool: String,
    page: u64,
    version: u32,
}

/// Bytes that nobody wrote.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DamagedWord {
    Damaged,
}

impl From<Found> for FoundContent {
    fn from(found: Found) -> FoundContent {
        match found {
            Found::Nothing(()) => FoundContent::Nothing,
            Found::Version(version) => FoundContent::Version(version),
            Found::Other(OtherPage {
                pool,
                page,
                version,
            }) => FoundContent::Other(format!("version {version} of page {page} of {pool}").into()),
            Found::Damaged(DamagedWord::Damaged) => {
                FoundContent::Other("bytes that nobody wrote".into())
            }
        }
    }
}
