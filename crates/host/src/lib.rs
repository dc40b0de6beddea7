//! The daemon: serve, config, headroom, the Memory Manager, admin, observe.

#![deny(unsafe_code)]

pub mod admin;
mod alone;
mod bounds;
pub mod chores;
pub mod config;
mod credentials;
pub mod daemon;
pub mod disk;
mod ending;
mod finale;
mod greeting;
pub mod headroom;
mod heap;
mod live_changes;
pub mod locked;
pub mod lone;
pub mod manager;
pub mod observe;
mod ofd;
mod patience;
mod refused;
mod reserve;
pub mod serve;
mod signals;
pub mod spill;
mod state_folder;
mod stuck;
pub mod tenants;
