//! Bytes and words of the protocols, as they are read and written.

pub(super) mod rows;
