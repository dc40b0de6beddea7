//! The contract with programs outside: the page ring, admin messages, and handles that speak them.

#![deny(unsafe_code)]

#[cfg(feature = "admin")]
mod admin;
#[cfg(feature = "admin")]
mod door;
#[cfg(feature = "ffi")]
pub mod ffi;
#[cfg(feature = "admin")]
mod follow;
#[cfg(feature = "admin")]
pub mod messages;
#[cfg(feature = "admin")]
mod place;
pub mod ring;

#[cfg(feature = "admin")]
pub use admin::{Admin, CallError};
#[cfg(feature = "admin")]
pub use door::{Door, DoorError};
#[cfg(feature = "admin")]
pub use follow::Followed;
#[cfg(feature = "admin")]
pub use place::default_socket;
