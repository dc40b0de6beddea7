//! Tenants: what each may have, and how it is served, with its listeners, its rings, and what its clients may ask.
//! Tenants are added, changed and removed only here (`registry`, `adding`, `grants`).

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
pub(crate) use registry::TenantRegistry;
pub use service::{ServiceError, unusable_files};
