//! What all protocols do with items: fetch, store, count, touch, delete. Here it is counted and told to those who watch.

mod compare;
mod count;
mod delete;
mod fetch;
pub(super) mod listing;
mod rewrite;
pub(super) mod sizes;
mod store;

pub(super) use compare::{Compared, compare};
pub(super) use count::{Counted, Delta, Seed, count};
pub(super) use delete::{count_deleted, delete};
pub(super) use fetch::{Found, count_fetched, count_touched, read, touch};
pub(super) use rewrite::{remove, rewrite};
pub(super) use store::{Store, refuse, store};
