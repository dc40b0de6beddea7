//! The certificates that a listener or a client trusts.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::{CredentialError, chain, pem_files};

/// Trusted certificates.
#[derive(Clone, Debug)]
pub struct Authorities {
    pub(crate) certificates: Arc<[CertificateDer<'static>]>,
    /// All trusted certificates.
    pub(crate) roots: Arc<RootCertStore>,
    /// The certificates whose holders may sign others. These are the ones of version 1, and the ones that say so.
    pub(crate) signers: Arc<RootCertStore>,
}

impl Authorities {
    /// Reads the certificates of a file.
    ///
    /// # Errors
    ///
    /// One of the certificates cannot be used; the error names the first. If it were skipped, peers would be refused
    /// for a reason that nobody sees.
    pub fn read(path: &Path) -> Result<Authorities, CredentialError> {
        let certificates = pem_files::certificates(path)?;
        let mut roots = RootCertStore::empty();
        let mut signers = RootCertStore::empty();
        for (before, certificate) in certificates.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|_| CredentialError::NotX509 {
                path: path.to_owned(),
                nth: before + 1,
            })?;
            if chain::parsed(certificate).is_ok_and(|root| chain::is_no_leaf(&root)) {
                signers.add_parsable_certificates([certificate.clone()]);
            }
        }
        Ok(Authorities {
            certificates: certificates.into(),
            roots: Arc::new(roots),
            signers: Arc::new(signers),
        })
    }

    /// Returns whether this very certificate is one of the trusted ones.
    pub(crate) fn hold(&self, certificate: &CertificateDer<'_>) -> bool {
        let der: &[u8] = certificate.as_ref();
        self.certificates.iter().any(|known| known.as_ref() == der)
    }
}
