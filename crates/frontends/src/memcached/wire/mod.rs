//! Bytes and words of the protocols, as they are read and written.

pub(super) mod block;
pub(super) mod flags;
pub(super) mod packet;
pub(super) mod rows;
pub(super) mod words;
