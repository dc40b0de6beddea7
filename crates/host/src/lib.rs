//! The daemon: run, config, headroom, admin, observe.

#![deny(unsafe_code)]

pub mod chores;
pub mod config;
pub mod headroom;
