//! The daemon: run, config, headroom, admin, observe.

#![deny(unsafe_code)]

pub mod admin;
pub mod chores;
pub mod config;
pub mod headroom;
pub mod lone;
pub mod observe;
pub mod run;
