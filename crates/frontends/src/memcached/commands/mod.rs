//! What clients ask, in each of the protocols: a request is read, run, and answered.

pub(super) mod binary;
mod meta;
mod reply;
mod stats;
pub(super) mod text;
