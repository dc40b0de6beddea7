//! memcached's protocols (text, meta, binary) and its face to the outside.

pub mod connections;
pub mod face;
pub mod passwords;
pub mod serve;
pub mod session;
pub mod settings;
pub mod watch;
