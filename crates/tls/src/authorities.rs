//! Whom a listener or a client trusts.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::{Fault, chain, files};

/// Certificates that are trusted.
#[derive(Clone, Debug)]
pub struct Authorities {
    pub(crate) certificates: Arc<[CertificateDer<'static>]>,
    /// All of them.
    pub(crate) roots: Arc<RootCertStore>,
    /// Those whose holders may sign others': those of version 1, and those that say so.
    pub(crate) signers: Arc<RootCertStore>,
}

impl Authorities {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// The first certificate that is of no use: without it somebody would be refused, and nobody would know why.
    pub fn read(path: &Path) -> Result<Authorities, Fault> {
        let certificates = files::certificates(path)?;
        let mut roots = RootCertStore::empty();
        let mut signers = RootCertStore::empty();
        for (before, certificate) in certificates.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|_| Fault::NotX509 {
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

    /// Whether this very certificate is one of them.
    pub(crate) fn hold(&self, certificate: &CertificateDer<'_>) -> bool {
        let der: &[u8] = certificate.as_ref();
        self.certificates.iter().any(|known| known.as_ref() == der)
    }
}
