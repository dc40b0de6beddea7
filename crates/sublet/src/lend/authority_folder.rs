//! The folder of a cluster's authority: `ca.crt`, `ca.key`, and each node's `NODE.crt` and `NODE.key`.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{Certificate, KeyPair, SubjectPublicKeyInfo};
use sublet_tls::peer::{
    CertificateSummary, CertificateUri, DefaultTimeProvider, NodeIdentity, PeerCredentials,
    PeerTlsSettings,
};
use sublet_types::{ClusterName, NodeName};

use super::ca_error::CaError;
use super::certificates::{Validity, authority_certificate, node_certificate};
use super::draft_file::{DraftFile, ReadableBy, place_new_pair};

/// How long an authority lasts: ten years.
const AUTHORITY_DAYS: u64 = 3652;

/// How far nodes' clocks may be behind. A certificate begins so much before it is made, in seconds.
const CLOCK_SKEW_SECS: u64 = 3600;

const DAY_SECS: u64 = 24 * 3600;

/// The bits of a file's mode that let its group and others use it.
const OTHERS: u32 = 0o077;

/// The largest file of a key that is read, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// The folder of a cluster's authority.
pub(super) struct AuthorityFolder {
    pub(super) folder: PathBuf,
    /// The present time, in Unix seconds.
    pub(super) now_unix: u64,
}

/// What became of a node's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKey {
    /// It was made.
    Made,
    /// It was there, and the certificate was renewed.
    Kept,
}

/// A node's new certificate.
pub(super) struct IssuedCertificate {
    pub(super) identity: NodeIdentity,
    pub(super) summary: CertificateSummary,
    pub(super) key: NodeKey,
}

/// An authority that can sign.
struct Authority {
    cluster: ClusterName,
    key: KeyPair,
    ends_unix: u64,
}

impl AuthorityFolder {
    pub(super) fn authority_certificate(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    pub(super) fn authority_key(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    pub(super) fn node_certificate(&self, node: &NodeName) -> PathBuf {
        self.folder.join(format!("{node}.crt"))
    }

    pub(super) fn node_key(&self, node: &NodeName) -> PathBuf {
        self.folder.join(format!("{node}.key"))
    }

    /// Makes an authority. Neither of its files may be there.
    pub(super) fn make_authority(
        &self,
        cluster: &ClusterName,
    ) -> Result<CertificateSummary, CaError> {
        let paths = [self.authority_key(), self.authority_certificate()];
        for path in &paths {
            if is_there(path)? {
                return Err(CaError::Exists(path.clone()));
            }
        }
        let key = KeyPair::generate()?;
        let validity = self.validity(AUTHORITY_DAYS);
        let certificate = authority_certificate(cluster, &key, validity)?;
        let [key_place, certificate_place] = paths;
        let key = DraftFile::write(key_place, &key.serialize_pem(), ReadableBy::Owner)?;
        let draft = draft_certificate(certificate_place, &certificate)?;
        let summary = CertificateSummary::read(draft.path())?;
        place_new_pair(key, draft)?;
        Ok(summary)
    }

    /// Makes a node's certificate. If its key is there, the new certificate is for that key and replaces the old one.
    /// Otherwise the key is made, too.
    pub(super) fn issue(&self, node: &NodeName, days: u32) -> Result<IssuedCertificate, CaError> {
        let authority = self.authority()?;
        let validity = self.validity(days.into());
        if validity.ends_unix > authority.ends_unix {
            let rest = authority.ends_unix.saturating_sub(self.now_unix);
            return Err(CaError::BeyondAuthority {
                days,
                ends_unix: authority.ends_unix,
                most: rest / DAY_SECS,
            });
        }
        let identity = NodeIdentity {
            cluster: authority.cluster.clone(),
            node: node.clone(),
        };
        match is_there(&self.node_key(node))? {
            true => self.renew(identity, authority.key, validity),
            false => self.issue_with_new_key(identity, authority.key, validity),
        }
    }

    /// Keys that others than their owner may read: that of the authority, and that of a node.
    pub(super) fn exposed_keys(&self, node: &NodeName) -> Vec<PathBuf> {
        let keys = [self.authority_key(), self.node_key(node)];
        let is_exposed = |key: &PathBuf| {
            let mode = key.metadata().map(|file| file.permissions().mode());
            mode.is_ok_and(|mode| mode & OTHERS != 0)
        };
        keys.into_iter().filter(is_exposed).collect()
    }

    fn issue_with_new_key(
        &self,
        identity: NodeIdentity,
        authority_key: KeyPair,
        validity: Validity,
    ) -> Result<IssuedCertificate, CaError> {
        let (certificate, key) = (
            self.node_certificate(&identity.node),
            self.node_key(&identity.node),
        );
        if is_there(&certificate)? {
            return Err(CaError::NoNodeKey { certificate, key });
        }
        let pair = KeyPair::generate()?;
        let made = node_certificate(&identity, &pair, authority_key, validity)?;
        let key = DraftFile::write(key, &pair.serialize_pem(), ReadableBy::Owner)?;
        let draft = draft_certificate(certificate, &made)?;
        let summary = self.accepted(&identity, &draft, key.path())?;
        place_new_pair(key, draft)?;
        Ok(IssuedCertificate {
            identity,
            summary,
            key: NodeKey::Made,
        })
    }

    fn renew(
        &self,
        identity: NodeIdentity,
        authority_key: KeyPair,
        validity: Validity,
    ) -> Result<IssuedCertificate, CaError> {
        let (certificate, key) = (
            self.node_certificate(&identity.node),
            self.node_key(&identity.node),
        );
        let provider = sublet_tls::provider();
        if is_there(&certificate)? {
            sublet_tls::identity(&certificate, &key, &provider)?;
        }
        let public = sublet_tls::public_key(&key, &provider)?;
        let public = SubjectPublicKeyInfo::from_der(public.as_ref())?;
        let made = node_certificate(&identity, &public, authority_key, validity)?;
        let draft = draft_certificate(certificate, &made)?;
        let summary = self.accepted(&identity, &draft, &key)?;
        draft.replace()?;
        Ok(IssuedCertificate {
            identity,
            summary,
            key: NodeKey::Kept,
        })
    }

    /// Checks that the cluster's nodes will accept a certificate, before it is put in its place.
    fn accepted(
        &self,
        identity: &NodeIdentity,
        certificate: &DraftFile,
        key: &Path,
    ) -> Result<CertificateSummary, CaError> {
        let settings = PeerTlsSettings {
            identity: identity.clone(),
            ca: self.authority_certificate(),
            certificate: certificate.path().to_owned(),
            key: key.to_owned(),
            denied: Vec::new(),
        };
        PeerCredentials::load(&settings, Arc::new(DefaultTimeProvider))?;
        Ok(CertificateSummary::read(certificate.path())?)
    }

    fn authority(&self) -> Result<Authority, CaError> {
        let (certificate, key) = (self.authority_certificate(), self.authority_key());
        if !is_there(&certificate)? {
            return Err(CaError::NoAuthority(self.folder.clone()));
        }
        if !is_there(&key)? {
            return Err(CaError::NoAuthorityKey(key));
        }
        let summary = CertificateSummary::read(&certificate)?;
        let Ok(CertificateUri::Cluster(cluster)) = summary.uri else {
            return Err(CaError::NoCluster(certificate));
        };
        sublet_tls::identity(&certificate, &key, &sublet_tls::provider())?;
        let text = sublet_tls::read_text(&key, KEY_FILE_BYTES_MAX);
        let text = text.map_err(|source| CaError::Unreadable { path: key, source })?;
        Ok(Authority {
            cluster,
            key: KeyPair::from_pem(&text)?,
            ends_unix: summary.ends_unix,
        })
    }

    fn validity(&self, days: u64) -> Validity {
        Validity {
            starts_unix: self.now_unix.saturating_sub(CLOCK_SKEW_SECS),
            ends_unix: self.now_unix + days * DAY_SECS,
        }
    }
}

fn draft_certificate(place: PathBuf, certificate: &Certificate) -> Result<DraftFile, CaError> {
    DraftFile::write(place, &certificate.pem(), ReadableBy::Everybody)
}

/// Returns whether something has this name, even a link that leads nowhere. The error says why that is not known.
fn is_there(path: &Path) -> Result<bool, CaError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(CaError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}
