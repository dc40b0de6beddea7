//! The daemon's host side: serve, config, headroom, the Memory Manager, admin and observe.

#![deny(unsafe_code)]

pub mod admin;
mod allocate_file;
pub mod chores;
pub mod config;
mod credential_report;
pub mod daemon;
pub mod disk;
pub mod headroom;
mod heap;
mod host_lock;
mod live_changes_file;
pub mod manager;
pub mod memory_lock;
pub mod observe;
mod ofd;
pub mod peers;
mod refusal_reporter;
mod resource_bounds;
mod retry;
pub mod serve;
mod shutdown_signal;
mod shutdown_watchdog;
mod signals;
pub mod spill;
pub mod standalone;
mod startup_banner;
mod state_folder;
mod stuck;
pub mod tenants;
#[cfg(test)]
mod wait_until;
