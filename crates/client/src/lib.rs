//! What programs outside the daemon share with it: the page ring, the admin messages, and clients for both.

#![deny(unsafe_code)]

#[cfg(feature = "admin")]
mod admin;
#[cfg(feature = "admin")]
mod admin_endpoint;
#[cfg(feature = "admin")]
mod default_socket;
#[cfg(feature = "ffi")]
pub mod ffi;
#[cfg(feature = "admin")]
mod follow;
#[cfg(feature = "admin")]
pub mod messages;
pub mod ring;

#[cfg(feature = "admin")]
pub use admin::{Admin, AdminError};
#[cfg(feature = "admin")]
pub use admin_endpoint::{AdminEndpoint, AdminEndpointError};
#[cfg(feature = "admin")]
pub use default_socket::default_socket;
#[cfg(feature = "admin")]
pub use follow::EventOrGap;
