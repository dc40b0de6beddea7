//! Two and three nodes in one process, each with its own store, over loopback.

mod authority;
mod cluster;
mod led;
mod lending;
mod refused;
mod relay;
mod turns;
