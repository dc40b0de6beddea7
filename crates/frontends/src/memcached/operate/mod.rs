//! The operations on items that all protocols share: fetch, store, count, touch, delete. Each is counted and reported
//! to watchers here.

mod compare;
mod count;
mod delete;
mod fetch;
pub(super) mod listing;
mod rewrite;
pub(super) mod sizes;
mod store;

pub(super) use compare::{CasOrdering, compare_cas};
pub(super) use count::{CountOutcome, Delta, InitialNumber, count};
pub(super) use delete::{count_deleted, delete};
pub(super) use fetch::{FetchResult, count_fetched, count_touched, read, touch};
pub(super) use rewrite::{remove, rewrite};
pub(super) use store::{StoreRequest, refuse, store};
