//! What a certificate says that matters between nodes.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::certificate_uri::{CertificateUri, CertificateUriError};
use super::fingerprint::Fingerprint;
use crate::{CredentialError, pem_files};

/// What a certificate says that matters between nodes. Nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// Whom it names.
    pub uri: Result<CertificateUri, CertificateUriError>,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The first second at which it is valid, in Unix time.
    pub starts_unix: u64,
    /// The last second at which it is valid, in Unix time.
    pub ends_unix: u64,
}

impl CertificateSummary {
    /// Reads the first certificate of a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its first certificate is none.
    pub fn read(path: &Path) -> Result<CertificateSummary, CredentialError> {
        let certificates = pem_files::certificates(path)?;
        let first = certificates.first().and_then(CertificateSummary::of);
        first.ok_or_else(|| CredentialError::NotX509 {
            path: path.to_owned(),
            nth: 1,
        })
    }

    /// Returns what a certificate says. Returns `None` if it is none.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<CertificateSummary> {
        let Ok(([], parsed)) = X509Certificate::from_der(certificate.as_ref()) else {
            return None;
        };
        let validity = parsed.validity();
        Some(CertificateSummary {
            uri: CertificateUri::of(&parsed),
            fingerprint: Fingerprint::of(certificate),
            starts_unix: unix(validity.not_before),
            ends_unix: unix(validity.not_after),
        })
    }
}

/// Returns a time in Unix seconds. Times before 1970 are 0.
fn unix(time: ASN1Time) -> u64 {
    u64::try_from(time.timestamp()).unwrap_or(0)
}
