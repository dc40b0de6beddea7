//! The daemon as a process, asked over its real sockets.

mod admin;
mod afar;
mod daemon;
mod disks;
mod life;
mod metrics;
mod packaging;
mod users;
