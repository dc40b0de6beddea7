//! memcached's meta protocol. A request is two letters, a key, and flags that say what to do and what to show.

mod expiry;
pub(super) mod ma;
pub(super) mod md;
pub(super) mod me;
pub(super) mod mg;
pub(super) mod ms;
mod reply;
