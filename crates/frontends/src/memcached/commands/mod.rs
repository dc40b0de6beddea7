//! The commands of each protocol. Each parses a request, runs it, and replies.

pub(super) mod binary;
mod meta;
mod reply;
mod stats;
pub(super) mod text;
