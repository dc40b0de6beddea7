//! Which clients a listener lets in.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

use crate::Authorities;
use crate::chain::{self, Judge, Purpose};

/// What becomes of clients without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// They come in.
    Welcome,
    /// They do not.
    Refused,
}

/// Judges clients' certificates.
///
/// # Errors
///
/// There is no authority.
pub fn client_verifier(
    authorities: &Authorities,
    anonymous: Anonymous,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let by = |roots: &Arc<RootCertStore>| {
        let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let builder = match anonymous {
            Anonymous::Welcome => builder.allow_unauthenticated(),
            Anonymous::Refused => builder,
        };
        builder.build()
    };
    let signers = &authorities.signers;
    Ok(Arc::new(ClientVerifier {
        asks: by(&authorities.roots)?,
        by_signers: (!signers.is_empty()).then(|| by(signers)).transpose()?,
        authorities: authorities.clone(),
        algorithms: provider.signature_verification_algorithms,
    }))
}

#[derive(Debug)]
struct ClientVerifier {
    /// Says whether a certificate is asked for, and by whom it is to be signed.
    asks: Arc<dyn ClientCertVerifier>,
    /// Judges what is neither of version 1 nor trusted itself.
    by_signers: Option<Arc<dyn ClientCertVerifier>>,
    authorities: Authorities,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.asks.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.asks.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.asks.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !Judge::is_asked(&self.authorities, leaf) {
            let nobody = || CertificateError::UnknownIssuer;
            let judge = self.by_signers.as_ref().ok_or_else(nobody)?;
            return judge.verify_client_cert(leaf, sent, now);
        }
        let judge = Judge {
            authorities: &self.authorities,
            algorithms: &self.algorithms,
            purpose: Purpose::Client,
            now,
        };
        judge.trusts(leaf, sent)?;
        Ok(ClientCertVerified::assertion())
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

/// Whether a leaf's holder signed a handshake of TLS 1.2.
pub(crate) fn tls12_signature(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let parsed = chain::parsed(leaf)?;
    if !chain::is_v1(&parsed) {
        return verify_tls12_signature(message, leaf, signed, algorithms);
    }
    match chain::signed_tls12(message, &chain::public_key(&parsed), signed, algorithms) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// Whether a leaf's holder signed a handshake of TLS 1.3.
pub(crate) fn tls13_signature(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let parsed = chain::parsed(leaf)?;
    match chain::is_v1(&parsed) {
        false => verify_tls13_signature(message, leaf, signed, algorithms),
        true => {
            let key = chain::public_key(&parsed);
            verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
        }
    }
}
