//! TLS with etcd: whom the node trusts, and the certificate that it shows.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use sublet_tls::{Authorities, CredentialError};

/// The files of TLS with etcd, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that signed etcd's certificates.
    pub authority: PathBuf,
    /// The certificate that this node shows, if etcd asks for one.
    pub certificate: Option<CertificateFiles>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those that lead to its authority.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// TLS with etcd, ready to be used.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    pub(super) config: Arc<ClientConfig>,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// A certificate or key is none.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// TLS does not take them.
    #[error("TLS with etcd: {0}")]
    Tls(#[from] rustls::Error),
}

impl EtcdTls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// One of them cannot be used. The error says which and why.
    pub fn read(files: &TlsFiles) -> Result<EtcdTls, TlsFilesError> {
        let provider = sublet_tls::provider();
        let authorities = Authorities::read(&files.authority)?;
        let verifier = sublet_tls::server_verifier(authorities, &provider);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &files.certificate {
            Some(own) => {
                let identity = sublet_tls::identity(&own.chain, &own.key, &provider)?;
                builder.with_client_cert_resolver(identity)
            }
            None => builder.with_no_client_auth(),
        };
        Ok(EtcdTls {
            config: Arc::new(config),
        })
    }
}
