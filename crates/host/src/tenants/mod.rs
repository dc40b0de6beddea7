//! Tenants as they are served: their listeners, their rings, and what their clients may ask.

pub(crate) mod owner;
pub(crate) mod refusals;
pub(crate) mod reread;
pub(crate) mod rings;
pub(crate) mod service;

pub use service::{ServiceError, unusable_files};
