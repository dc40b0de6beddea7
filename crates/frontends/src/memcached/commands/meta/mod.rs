//! memcached's meta protocol: two letters, a key, and flags that say what is done and what is shown.

mod ends;
pub(super) mod ma;
pub(super) mod md;
pub(super) mod me;
pub(super) mod mg;
pub(super) mod ms;
mod reply;
