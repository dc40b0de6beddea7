//! memcached's protocols (text, meta, binary) and its face to the outside.

mod bound;
mod caller;
mod commands;
pub mod connections;
mod events;
pub mod instance;
mod large_value;
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
