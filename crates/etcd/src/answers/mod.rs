//! Parses what etcd's JSON gateway answers. Nothing here trusts a byte: an answer that lacks what it must have is a
//! fault, and never an empty store.
//!
//! The gateway writes 64-bit numbers as strings, keys and values in base64, and leaves out what is 0 or empty.

mod base64_bytes;
mod entries;
mod fault;
mod gateway_fault;
mod lease;
mod number;
mod token;
mod watch;

pub use self::entries::{ENTRIES_MAX, decode_campaign, decode_put, decode_range};
pub use self::fault::AnswerFault;
pub use self::gateway_fault::{FaultKind, GatewayFault, decode_fault};
pub use self::lease::{decode_grant, decode_renewal};
pub use self::token::decode_token;
pub use self::watch::{WatchMessage, decode_watch};
