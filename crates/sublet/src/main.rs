//! Sublet: a host's idle memory, put to work until its owner asks for it back.
fn main() {}
