//! The identity of a TLS listener: its chain of certificates, and the key of the first one.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};

use crate::{CredentialError, UnusableKeyKind, key, pem_files};

/// Reads a chain and its key.
///
/// It exists because `rustls` itself would refuse a certificate of version 1 as a listener's own.
///
/// # Errors
///
/// A file cannot be used. The error says which file and why.
pub fn identity(
    chain: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, CredentialError> {
    let certified = certified_key(chain, key, provider)?;
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

/// Reads a chain and its key, and keeps the certificates.
pub(crate) fn certified_key(
    chain: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CredentialError> {
    // Both files may be one pipe, which can be read only once.
    let in_key_file = pem_files::blocks(key)?;
    let signing = key::signing_key(&in_key_file, key, provider)?;
    let certificates = match chain == key {
        true => pem_files::certificates_in(in_key_file, chain)?,
        false => pem_files::certificates(chain)?,
    };
    let own = certificates.first().map_or(&[][..], |own| own.as_ref());
    let Ok((_, own)) = X509Certificate::from_der(own) else {
        return Err(CredentialError::NotX509 {
            path: chain.to_owned(),
            nth: 1,
        });
    };
    if !belongs(&own, signing.as_ref()) {
        return Err(CredentialError::Mismatch {
            chain: chain.to_owned(),
            key: key.to_owned(),
        });
    }
    Ok(CertifiedKey::new(certificates, signing))
}

/// Reads a private key, and returns its public half as a DER-encoded `SubjectPublicKeyInfo`.
///
/// # Errors
///
/// The file cannot be used. The error says why.
pub fn public_key(
    key: &Path,
    provider: &CryptoProvider,
) -> Result<SubjectPublicKeyInfoDer<'static>, CredentialError> {
    let signing = key::signing_key(&pem_files::blocks(key)?, key, provider)?;
    let unnamed = || CredentialError::Key {
        path: key.to_owned(),
        found: UnusableKeyKind::Garbled,
    };
    signing
        .public_key()
        .map(SubjectPublicKeyInfoDer::into_owned)
        .ok_or_else(unnamed)
}

/// Returns whether the certificate has this key. It compares only the bits, because the parameters of an algorithm can
/// be written in several ways.
fn belongs(own: &X509Certificate<'_>, key: &dyn SigningKey) -> bool {
    let Some(public) = key.public_key() else {
        return false;
    };
    let Ok((_, public)) = SubjectPublicKeyInfo::from_der(public.as_ref()) else {
        return false;
    };
    public.subject_public_key.data == own.public_key().subject_public_key.data
}
