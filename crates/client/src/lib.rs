//! The contract with programs outside: admin messages and a handle that speaks them.

#![forbid(unsafe_code)]

mod place;

pub use place::default_socket;
