//! Certificates and keys as OpenSSL and GnuTLS take them. The crate reads PEM as people have it and X.509 of version 1,
//! and decides which peers are trusted. [`peer`] is what two nodes of a cluster trust.

mod authorities;
mod chain;
mod error;
mod identity;
mod key;
pub mod peer;
mod pem_files;
mod read;
mod tls_fault;
mod verify_client;
mod verify_server;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use self::authorities::Authorities;
pub use self::error::{CredentialError, FileContent, UnusableKeyKind};
pub use self::identity::{identity, public_key};
pub use self::read::{read, read_text};
pub use self::tls_fault::tls_fault;
pub use self::verify_client::{AnonymousClients, client_verifier};
pub use self::verify_server::server_verifier;

/// Returns the cryptography of every listener and of every client.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
