//! memcached's protocols (text, meta, binary) and its face to the outside.

mod bound;
mod caller;
mod commands;
pub mod connections;
mod events;
mod gather;
pub mod instance;
mod map;
pub mod metrics;
mod numbers;
mod operate;
mod outcome;
pub mod passwords;
mod prefixes;
pub mod serve;
pub mod session;
pub mod settings;
mod verbs;
pub mod watch;
mod wire;
