//! memcached's protocols (text, meta, binary) and its face to the outside.

pub mod settings;
