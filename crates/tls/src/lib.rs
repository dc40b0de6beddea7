//! Certificates and keys as OpenSSL and GnuTLS take them: PEM as people have it, X.509 of version 1, and who trusts whom.

mod authorities;
mod chain;
mod fault;
mod files;
mod identity;
mod key;
mod read;
mod verify_client;
mod verify_server;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use self::authorities::Authorities;
pub use self::fault::{Fault, Found, KeyKind};
pub use self::identity::identity;
pub use self::read::{read, read_text};
pub use self::verify_client::{Anonymous, client_verifier};
pub use self::verify_server::server_verifier;

/// The cryptography of every listener and of every client.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
