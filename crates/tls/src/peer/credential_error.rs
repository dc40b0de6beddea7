//! Why a node cannot use its certificate, its key or its authorities.

use std::path::PathBuf;

use rustls::Error;

use super::refusal::PeerRefusal;
use crate::CredentialError;

/// The most fingerprints of a deny list.
pub const DENIED_MAX: usize = 4096;

/// Why a node cannot use its certificate, its key or its authorities.
#[derive(Debug, thiserror::Error)]
pub enum PeerCredentialError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] CredentialError),
    /// The file of authorities holds certificates, and none of them may sign others.
    #[error("no certificate in {0} may sign others; name the cluster's ca.crt with peers.ca")]
    NoAuthority(PathBuf),
    /// Other nodes would refuse this node's certificate.
    #[error("other nodes would refuse the certificate in {path}. They would say: {refusal}")]
    Refused {
        /// The certificate's file.
        path: PathBuf,
        /// What they would say.
        refusal: Box<PeerRefusal>,
    },
    /// The certificate ends before it begins.
    #[error(
        "the certificate in {0} is valid at no time, because it ends before it begins; issue it again"
    )]
    NeverValid(PathBuf),
    /// The deny list is too long.
    #[error(
        "peers.deny has {0} fingerprints, and {DENIED_MAX} are the most; leave out the certificates that have expired"
    )]
    TooManyDenied(usize),
    /// The library refused.
    #[error("TLS: {0}")]
    Library(#[from] Error),
}
