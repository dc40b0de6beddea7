//! Who a server is: its chain of certificates, and the key of the first one.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};

use crate::{Fault, files, key};

/// Reads a chain and its key. `rustls` itself would refuse a certificate of version 1 as a server's own.
///
/// # Errors
///
/// Which file cannot be used, and why.
pub fn identity(
    chain: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, Fault> {
    // Both may stand in one pipe, which can be read once.
    let in_key_file = files::blocks(key)?;
    let signing = key::signing_key(&in_key_file, key, provider)?;
    let certificates = match chain == key {
        true => files::certificates_in(in_key_file, chain)?,
        false => files::certificates(chain)?,
    };
    let own = certificates.first().map_or(&[][..], |own| own.as_ref());
    let Ok((_, own)) = X509Certificate::from_der(own) else {
        return Err(Fault::NotX509 {
            path: chain.to_owned(),
            nth: 1,
        });
    };
    if !belongs(&own, signing.as_ref()) {
        return Err(Fault::Mismatch {
            chain: chain.to_owned(),
            key: key.to_owned(),
        });
    }
    let certified = CertifiedKey::new(certificates, signing);
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

/// Whether the certificate is of this key. Only the bits count: how an algorithm's parameters are written differs.
fn belongs(own: &X509Certificate<'_>, key: &dyn SigningKey) -> bool {
    let Some(public) = key.public_key() else {
        return false;
    };
    let Ok((_, public)) = SubjectPublicKeyInfo::from_der(public.as_ref()) else {
        return false;
    };
    public.subject_public_key.data == own.public_key().subject_public_key.data
}
