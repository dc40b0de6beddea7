//! Tenants: who they are, what each may have, and how they are served: their listeners, their rings, and what their clients
//! may ask. They are added, changed and removed here (`registry`, `adding`, `grants`), and nowhere else.

mod adding;
mod error;
mod grants;
pub(crate) mod owner;
pub(crate) mod refusals;
mod registry;
pub(crate) mod rings;
pub(crate) mod service;
#[cfg(test)]
mod tests;

pub use error::TenantsError;
pub(crate) use registry::Tenants;
pub use service::{ServiceError, unusable_files};
