//! Decides which clients a listener accepts.

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
use crate::chain::{self, ChainVerifier, Purpose};

/// What a listener does with clients that have no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnonymousClients {
    /// It accepts them.
    Accepted,
    /// It refuses them.
    Refused,
}

/// Makes the verifier of clients' certificates.
///
/// # Errors
///
/// No authority is given.
pub fn client_verifier(
    authorities: &Authorities,
    anonymous: AnonymousClients,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let build = |roots: &Arc<RootCertStore>| {
        let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let builder = match anonymous {
            AnonymousClients::Accepted => builder.allow_unauthenticated(),
            AnonymousClients::Refused => builder,
        };
        builder.build()
    };
    let signers = &authorities.signers;
    Ok(Arc::new(ClientVerifier {
        request_policy: build(&authorities.roots)?,
        signer_verifier: (!signers.is_empty()).then(|| build(signers)).transpose()?,
        authorities: authorities.clone(),
        algorithms: provider.signature_verification_algorithms,
    }))
}

#[derive(Debug)]
struct ClientVerifier {
    /// Says whether clients are asked for a certificate, and which authorities may have signed it.
    request_policy: Arc<dyn ClientCertVerifier>,
    /// Verifies certificates that are neither of version 1 nor trusted themselves.
    signer_verifier: Option<Arc<dyn ClientCertVerifier>>,
    authorities: Authorities,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.request_policy.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.request_policy.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.request_policy.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !ChainVerifier::applies_to(&self.authorities, leaf) {
            let unknown_issuer = || CertificateError::UnknownIssuer;
            let verifier = self.signer_verifier.as_ref().ok_or_else(unknown_issuer)?;
            return verifier.verify_client_cert(leaf, sent, now);
        }
        let verifier = ChainVerifier {
            authorities: &self.authorities,
            algorithms: &self.algorithms,
            purpose: Purpose::Client,
            now,
        };
        verifier.trusts(leaf, sent)?;
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

/// Checks that a leaf's holder signed a handshake of TLS 1.2.
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

/// Checks that a leaf's holder signed a handshake of TLS 1.3.
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
