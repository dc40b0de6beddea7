//! The daemon: run, config, headroom, the Memory Manager, admin, observe.

#![deny(unsafe_code)]

pub mod admin;
pub mod chores;
pub mod config;
pub mod disk;
mod ending;
pub mod headroom;
mod heap;
pub mod locked;
pub mod lone;
pub mod manager;
pub mod observe;
mod ofd;
mod patience;
mod reserve;
pub mod run;
pub mod spill;
mod stuck;
