//! Pure decisions: how large the arena may be.

#![forbid(unsafe_code)]

pub mod headroom;
