//! The vocabulary of Sublet: ids, amounts, times and figures that every room shares. No behaviour
//! beyond parsing and printing.

#![forbid(unsafe_code)]

mod amount;
mod host;
mod tenant;
mod time;

pub use amount::{BLOCK_BYTES, Bytes, PAGE_BYTES, ParseBytesError};
pub use host::{CgroupFigures, HostFigures, Pressure};
pub use tenant::{ReleaseMode, TenantId, TenantName, TenantNameError, TenantSettings, Weight};
pub use time::{Expiry, Second};
