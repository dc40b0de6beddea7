//! The bytes and words of the protocols, and how they are parsed and written.

pub(super) mod flags;
pub(super) mod packet;
pub(super) mod stat_writer;
pub(super) mod value_block;
pub(super) mod words;
