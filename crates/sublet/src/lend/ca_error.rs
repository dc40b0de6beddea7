//! Why no certificate was made.

use std::io;
use std::path::PathBuf;

use sublet_tls::CredentialError;
use sublet_tls::peer::PeerCredentialError;

use crate::timestamp::format_time;

/// Why no certificate was made. No file was changed then.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaError {
    /// The folder has no authority.
    #[error(
        "there is no CA in {0}: make one with `sublet lend ca init`, or say where it is with --dir"
    )]
    NoAuthority(PathBuf),
    /// The authority's certificate is there, and its key is not.
    #[error(
        "{0} is missing, and the CA signs with it: put it beside ca.crt, or name the folder that has both with --dir"
    )]
    NoAuthorityKey(PathBuf),
    /// The authority was not made by `sublet lend ca init`.
    #[error(
        "{0} names no cluster, so `sublet lend ca init` did not make it: let your own PKI sign nodes, or name another folder with --dir"
    )]
    NoCluster(PathBuf),
    /// A file is there that would have to be overwritten.
    #[error(
        "{0} is there already, and is not overwritten: name another folder with --dir, or move it away"
    )]
    Exists(PathBuf),
    /// A node's certificate is there, and its key is not.
    #[error(
        "{certificate} is there without its key: put {key} beside it to renew it, or move {certificate} away for a new key"
    )]
    NoNodeKey {
        /// The certificate.
        certificate: PathBuf,
        /// The missing key.
        key: PathBuf,
    },
    /// The certificate would be valid for longer than the authority.
    #[error(
        "a certificate of {days} days would outlast the CA, which ends on {}: {}",
        format_time(*ends_unix),
        remedy(*most)
    )]
    BeyondAuthority {
        /// The days that were asked for.
        days: u32,
        /// The last second of the authority, in Unix time.
        ends_unix: u64,
        /// The most days that are possible now.
        most: u64,
    },
    /// A file cannot be read or used.
    #[error(transparent)]
    File(#[from] CredentialError),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; {}", next_step(source.kind()))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Nodes would not accept the certificate.
    #[error("the certificate would be of no use, and was not kept: {0}")]
    Unusable(#[from] PeerCredentialError),
    /// The library refused.
    #[error("cannot make a certificate: {0}")]
    Library(#[from] rcgen::Error),
    /// The system gives no random bytes for a serial number.
    #[error("cannot make a certificate: the system gives no random bytes")]
    NoRandomBytes,
}

fn remedy(most: u64) -> String {
    match most {
        0 => "make a new one in another folder with `sublet lend ca init --dir DIR`".to_owned(),
        _ => format!("take --days {most} at most, or make a new CA in another folder"),
    }
}

fn next_step(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "make the folder first",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room there; nothing was left half-written"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a folder that you may write with --dir"
        }
        _ => "nothing was left half-written",
    }
}
