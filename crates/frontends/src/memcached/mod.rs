//! memcached's protocols (text, meta, binary) and the interface of its listeners.

mod caller;
mod commands;
pub mod connections;
pub mod instance;
mod large_value;
mod map;
mod memory_bound;
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
mod watch_event;
mod wire;
