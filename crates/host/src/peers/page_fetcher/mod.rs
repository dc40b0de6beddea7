//! A thread's own connections by which it fetches pages from lenders.

mod asked_lender;
mod fetch_batch;
mod fetch_ledger;
mod fetch_outcome;
mod fetcher;
mod pending_read;
mod read_connection;

pub use fetch_batch::{FETCH_PAGES_MAX, FetchId};
pub use fetch_ledger::{FetchFigures, FetchLedger, FetchNews, GuardFigures};
pub use fetch_outcome::{FetchOutcome, GoneCause};
pub use fetcher::{FETCHES_MAX, FetcherSettings, PageFetcher, SocketReadiness};
