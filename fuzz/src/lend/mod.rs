//! Hostile peers of lending: on control connections, and on data connections.

pub mod control;
pub mod wire;
