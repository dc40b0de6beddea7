//! Decides which listeners a client trusts.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::certificate::X509Certificate;

use crate::Authorities;
use crate::chain::{self, ChainVerifier, Purpose};
use crate::verify_client::{tls12_signature, tls13_signature};

/// Makes the verifier of listeners' certificates.
pub fn server_verifier(
    authorities: Authorities,
    provider: &CryptoProvider,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ServerVerifier {
        authorities,
        algorithms: provider.signature_verification_algorithms,
    })
}

#[derive(Debug)]
struct ServerVerifier {
    authorities: Authorities,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.is_trusted(leaf, sent, now)?;
        is_named(leaf, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12_signature(message, leaf, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ServerVerifier {
    fn is_trusted(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if !ChainVerifier::applies_to(&self.authorities, leaf) {
            let (leaf, known) = (ParsedCertificate::try_from(leaf)?, self.algorithms.all);
            let roots = &self.authorities.signers;
            return verify_server_cert_signed_by_trust_anchor(&leaf, roots, sent, now, known);
        }
        let verifier = ChainVerifier {
            authorities: &self.authorities,
            algorithms: &self.algorithms,
            purpose: Purpose::Server,
            now,
        };
        verifier.trusts(leaf, sent)
    }
}

/// Checks that a certificate is for this name. A certificate without alternative names is for its common name. All
/// certificates of version 1 are like that.
fn is_named(leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let parsed = chain::parsed(leaf)?;
    if !matches!(parsed.subject_alternative_name(), Ok(None)) {
        return verify_server_name(&ParsedCertificate::try_from(leaf)?, name);
    }
    match subject_names(&parsed).any(|common| is_same(common, name)) {
        true => Ok(()),
        false => Err(CertificateError::NotValidForName.into()),
    }
}

fn subject_names<'a>(certificate: &'a X509Certificate<'_>) -> impl Iterator<Item = &'a str> {
    let names = certificate.subject().iter_common_name();
    names.filter_map(|name| name.as_str().ok())
}

fn is_same(common: &str, name: &ServerName<'_>) -> bool {
    match name {
        ServerName::IpAddress(address) => common.parse() == Ok(IpAddr::from(*address)),
        ServerName::DnsName(host) => {
            let host = host.as_ref();
            // A star stands for the first label only.
            let below = host.split_once('.').map_or("", |(_, below)| below);
            let starred = common.strip_prefix("*.");
            common.eq_ignore_ascii_case(host)
                || starred
                    .is_some_and(|rest| rest.contains('.') && rest.eq_ignore_ascii_case(below))
        }
        _ => false,
    }
}
