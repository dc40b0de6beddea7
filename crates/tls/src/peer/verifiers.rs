//! Both ends' verifiers, as the library calls them.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme};
use sublet_types::NodeName;

use super::chain_check::ChainCheck;
use super::refusal::PeerRefusal;
use crate::chain::Purpose;

/// Verifies the node that was called.
#[derive(Debug)]
pub(super) struct CalledNodeVerifier {
    pub(super) check: Arc<ChainCheck>,
    pub(super) expected: NodeName,
}

/// Verifies a node that calls.
#[derive(Debug)]
pub(super) struct CallingNodeVerifier {
    pub(super) check: Arc<ChainCheck>,
}

impl CalledNodeVerifier {
    /// Checks that a certificate is the expected node's. The name that the library passes along means nothing here.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let found = self.check.admitted(leaf, sent, Purpose::Server, now)?;
        if found.node == self.expected {
            return Ok(());
        }
        let expected = self.expected.clone();
        Err(PeerRefusal::OtherNode { found, expected }.into_error())
    }
}

impl ServerCertVerifier for CalledNodeVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(leaf, sent, now)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.check.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.check.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for CallingNodeVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.check.callers.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let admitted = self.check.admitted(leaf, sent, Purpose::Client, now);
        admitted.map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.check.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.check.algorithms.supported_schemes()
    }
}
