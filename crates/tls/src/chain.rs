//! Trust in certificates that `webpki` does not read: those of version 1, and one that is trusted itself.
//!
//! The rules are OpenSSL's. Certificates of version 1 have no extensions, so they do not say whether their holder may
//! sign others. Therefore only a root or a leaf may be of version 1. Each certificate between a leaf and a root must
//! say that it is an authority.

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ExtendedKeyUsage, ParsedExtension};
use x509_parser::prelude::{ASN1Time, FromDer};
use x509_parser::x509::X509Version;

use crate::Authorities;

/// The most steps from a leaf to a root.
const STEPS_MAX: usize = 6;

/// The most certificates of a peer's chain that are looked at.
const SENT_MAX: usize = 16;

/// The purpose for which a peer shows its leaf certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Client,
    Server,
}

/// Verifies a chain of certificates.
pub(crate) struct ChainVerifier<'a> {
    pub(crate) authorities: &'a Authorities,
    pub(crate) algorithms: &'a WebPkiSupportedAlgorithms,
    pub(crate) purpose: Purpose,
    pub(crate) now: UnixTime,
}

pub(crate) fn parsed<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err(CertificateError::BadEncoding.into()),
    }
}

pub(crate) fn is_v1(certificate: &X509Certificate<'_>) -> bool {
    certificate.version() == X509Version::V1
}

impl ChainVerifier<'_> {
    /// Returns whether this module verifies a leaf, and not `webpki`.
    pub(crate) fn applies_to(authorities: &Authorities, leaf: &CertificateDer<'_>) -> bool {
        parsed(leaf).is_ok_and(|parsed| is_v1(&parsed) || authorities.hold(leaf))
    }

    /// Checks that a leaf is trusted.
    pub(crate) fn trusts(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        let parsed = parsed(leaf)?;
        self.is_in_time(&parsed)?;
        self.serves_its_purpose(&parsed)?;
        if self.authorities.hold(leaf) && parsed.issuer().as_raw() == parsed.subject().as_raw() {
            return Ok(());
        }
        self.leads_to_a_root(&parsed, sent)
    }

    fn leads_to_a_root(
        &self,
        leaf: &X509Certificate<'_>,
        sent: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        let unknown = || Error::from(CertificateError::UnknownIssuer);
        let sent: Vec<_> = sent.iter().take(SENT_MAX).flat_map(parsed).collect();
        let mut last = leaf;
        for below in 0..STEPS_MAX {
            if self.a_root_signed(last) {
                return Ok(());
            }
            let signs = |issuer: &&X509Certificate<'_>| {
                self.may_sign(issuer, below) && self.has_signed(issuer, last)
            };
            last = sent.iter().find(signs).ok_or_else(unknown)?;
        }
        Err(unknown())
    }

    fn a_root_signed(&self, certificate: &X509Certificate<'_>) -> bool {
        let mut roots = self.authorities.certificates.iter().flat_map(parsed);
        roots.any(|root| {
            is_no_leaf(&root) && !limits_names(&root) && self.has_signed(&root, certificate)
        })
    }

    /// Returns whether a certificate that came with the leaf may sign others, with `below` authorities below it.
    fn may_sign(&self, certificate: &X509Certificate<'_>, below: usize) -> bool {
        let constraints = certificate.basic_constraints().ok().flatten();
        let is_authority = constraints.is_some_and(|found| {
            let limit = found.value.path_len_constraint;
            found.value.ca && limit.is_none_or(|limit| below <= limit as usize)
        });
        let usage = certificate.key_usage().ok().flatten();
        is_authority
            && usage.is_none_or(|found| found.value.key_cert_sign())
            && !limits_names(certificate)
            && self.is_in_time(certificate).is_ok()
            && self.serves_its_purpose(certificate).is_ok()
    }

    fn has_signed(&self, issuer: &X509Certificate<'_>, certificate: &X509Certificate<'_>) -> bool {
        let tbs = &certificate.tbs_certificate;
        let algorithm = certificate.signature_algorithm.algorithm.as_bytes();
        let Ok(length) = u8::try_from(algorithm.len()) else {
            return false;
        };
        let number = [&[0x06, length], algorithm].concat();
        let signature = certificate.signature_value.data.as_ref();
        let key = issuer.public_key().raw;
        issuer.subject().as_raw() == certificate.issuer().as_raw()
            && tbs.signature == certificate.signature_algorithm
            && self.algorithms.all.iter().any(|known| {
                known.signature_alg_id().starts_with(&number)
                    && is_signed(*known, key, tbs.as_ref(), signature)
            })
    }

    fn is_in_time(&self, certificate: &X509Certificate<'_>) -> Result<(), Error> {
        let validity = certificate.validity();
        let now = i64::try_from(self.now.as_secs()).ok();
        let now = now.and_then(|secs| ASN1Time::from_timestamp(secs).ok());
        match now {
            Some(now) if now < validity.not_before => Err(CertificateError::NotValidYet.into()),
            Some(now) if now <= validity.not_after => Ok(()),
            _ => Err(CertificateError::Expired.into()),
        }
    }

    /// Checks that no extension rules out the purpose, and that every critical extension is known here.
    fn serves_its_purpose(&self, certificate: &X509Certificate<'_>) -> Result<(), Error> {
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::ExtendedKeyUsage(usage) if !self.is_meant(usage) => {
                    return Err(CertificateError::InvalidPurpose.into());
                }
                ParsedExtension::BasicConstraints(_)
                | ParsedExtension::KeyUsage(_)
                | ParsedExtension::ExtendedKeyUsage(_)
                | ParsedExtension::SubjectAlternativeName(_) => {}
                _ if extension.critical => {
                    return Err(CertificateError::UnhandledCriticalExtension.into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_meant(&self, usage: &ExtendedKeyUsage<'_>) -> bool {
        usage.any
            || match self.purpose {
                Purpose::Client => usage.client_auth,
                Purpose::Server => usage.server_auth,
            }
    }
}

/// Returns whether the holder of a root may sign other certificates.
///
/// A root of version 1 says nothing of that, and may. Any other root must say that it may: by its constraints, or by
/// its key's usage if it has no constraints. A usage without that right rules it out.
pub(crate) fn is_no_leaf(root: &X509Certificate<'_>) -> bool {
    let (Ok(constraints), Ok(usage)) = (root.basic_constraints(), root.key_usage()) else {
        return false;
    };
    let signs = usage.map(|found| found.value.key_cert_sign());
    match constraints {
        _ if signs == Some(false) => false,
        Some(found) => found.value.ca,
        None => is_v1(root) || signs == Some(true),
    }
}

fn limits_names(certificate: &X509Certificate<'_>) -> bool {
    !matches!(certificate.name_constraints(), Ok(None))
}

/// Returns whether the holder of a certificate of version 1 signed a handshake of TLS 1.2.
pub(crate) fn signed_tls12(
    message: &[u8],
    key: &SubjectPublicKeyInfoDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> bool {
    let mapped = algorithms.mapping.iter();
    let mut fitting = mapped.filter(|(scheme, _)| *scheme == signed.scheme);
    fitting.any(|(_, tried)| {
        let mut tried = tried.iter();
        tried.any(|algorithm| is_signed(*algorithm, key.as_ref(), message, signed.signature()))
    })
}

/// Returns the public key of a certificate.
pub(crate) fn public_key(certificate: &X509Certificate<'_>) -> SubjectPublicKeyInfoDer<'static> {
    SubjectPublicKeyInfoDer::from(certificate.public_key().raw.to_vec())
}

fn is_signed(
    algorithm: &dyn SignatureVerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    let key = SubjectPublicKeyInfoDer::from(key);
    RawPublicKeyEntity::try_from(&key)
        .is_ok_and(|key| key.verify_signature(algorithm, message, signature).is_ok())
}
