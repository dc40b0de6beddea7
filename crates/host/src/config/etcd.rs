//! Where this host finds its cluster, if etcd knows the members: addresses, certificates and a user.

use std::path::PathBuf;

use sublet_etcd::gateway::{CertificateFiles, Endpoint, TlsFiles};

/// etcd, as this host reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// Members of etcd, at least one.
    pub endpoints: Vec<Endpoint>,
    /// The certificates, for those that speak TLS. `None` if none does.
    pub tls: Option<TlsFiles>,
    /// Who this host is for etcd, if etcd has users.
    pub user: Option<EtcdUserConfig>,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUserConfig {
    /// The name.
    pub name: String,
    /// The file whose first line is the password.
    pub password_file: PathBuf,
}

/// The paths of the three files of TLS, as far as they were said.
#[derive(Clone, Debug, Default)]
pub(super) struct SaidFiles<'a> {
    pub(super) ca: Option<&'a PathBuf>,
    pub(super) certificate: Option<&'a PathBuf>,
    pub(super) key: Option<&'a PathBuf>,
}

impl SaidFiles<'_> {
    /// The files, each of which stands in for one that was not said. `None` without an authority. A certificate and its
    /// key come from one place.
    pub(super) fn or(&self, otherwise: &SaidFiles<'_>) -> Option<TlsFiles> {
        let own = match (self.certificate, self.key) {
            (None, None) => (otherwise.certificate, otherwise.key),
            said => said,
        };
        let certificate = match own {
            (Some(chain), Some(key)) => Some(CertificateFiles {
                chain: chain.clone(),
                key: key.clone(),
            }),
            _ => None,
        };
        Some(TlsFiles {
            authority: self.ca.or(otherwise.ca)?.clone(),
            certificate,
        })
    }
}
