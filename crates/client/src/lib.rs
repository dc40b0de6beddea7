//! The contract with programs outside: admin messages and a handle that speaks them.

#![forbid(unsafe_code)]

mod admin;
mod door;
pub mod messages;
mod place;

pub use admin::{Admin, CallError};
pub use door::{Door, DoorError};
pub use place::default_socket;
