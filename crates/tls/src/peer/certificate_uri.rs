//! The URI that names a cluster or a node in a certificate.

use std::fmt;
use std::str::FromStr;

use sublet_types::{ClusterName, NodeName};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

/// What such a URI begins with.
const SCHEME: &str = "sublet://";

/// A node of a cluster. Its URI is `sublet://CLUSTER/NODE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdentity {
    /// The cluster.
    pub cluster: ClusterName,
    /// The node's name in it.
    pub node: NodeName,
}

/// Whom a certificate names by its URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateUri {
    /// The authority of a cluster: `sublet://CLUSTER`.
    Cluster(ClusterName),
    /// A node: `sublet://CLUSTER/NODE`.
    Node(NodeIdentity),
}

/// Why a certificate names no cluster and no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateUriError {
    /// No alternative name is a URI that begins with `sublet://`.
    #[error("it has no URI sublet://CLUSTER/NODE among its alternative names")]
    Missing,
    /// More than one is.
    #[error("it has more than one URI sublet://… among its alternative names")]
    Several,
    /// The URI does not name a cluster and a node.
    #[error("its URI sublet://… is not of the form sublet://CLUSTER/NODE")]
    Malformed,
    /// Its alternative names cannot be parsed.
    #[error("its alternative names cannot be parsed")]
    Unparsable,
}

impl CertificateUri {
    /// Returns whom a certificate names. Alternative names of other kinds are passed over.
    pub(super) fn of(
        certificate: &X509Certificate<'_>,
    ) -> Result<CertificateUri, CertificateUriError> {
        let names = certificate.subject_alternative_name();
        let names = names.map_err(|_| CertificateUriError::Unparsable)?;
        let names = names.ok_or(CertificateUriError::Missing)?;
        let mut ours = names
            .value
            .general_names
            .iter()
            .filter_map(|name| match name {
                GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
                _ => None,
            });
        match (ours.next(), ours.next()) {
            (None, _) => Err(CertificateUriError::Missing),
            (Some(uri), None) => uri.parse(),
            (Some(_), Some(_)) => Err(CertificateUriError::Several),
        }
    }
}

impl FromStr for CertificateUri {
    type Err = CertificateUriError;

    fn from_str(text: &str) -> Result<CertificateUri, CertificateUriError> {
        let malformed = CertificateUriError::Malformed;
        let names = text.strip_prefix(SCHEME).ok_or(malformed)?;
        let (cluster, node) = match names.split_once('/') {
            Some((cluster, node)) => (cluster, Some(node)),
            None => (names, None),
        };
        let cluster = cluster.parse().map_err(|_| malformed)?;
        match node {
            None => Ok(CertificateUri::Cluster(cluster)),
            Some(node) => Ok(CertificateUri::Node(NodeIdentity {
                cluster,
                node: node.parse().map_err(|_| malformed)?,
            })),
        }
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.cluster, self.node)
    }
}

impl fmt::Display for CertificateUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateUri::Cluster(cluster) => write!(f, "{SCHEME}{cluster}"),
            CertificateUri::Node(identity) => identity.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_reads_as_it_is_written() {
        for text in [
            "sublet://default",
            "sublet://default/a",
            "sublet://c.1/node_2",
        ] {
            let uri: CertificateUri = text.parse().expect(text);
            assert_eq!(uri.to_string(), text);
        }
        let Ok(CertificateUri::Node(identity)) = "sublet://blue/a".parse() else {
            panic!("it names a node");
        };
        assert_eq!(
            (identity.cluster.as_str(), identity.node.as_str()),
            ("blue", "a")
        );
    }

    #[test]
    fn nothing_hides_in_a_uri() {
        let wrong = [
            "sublet://",
            "sublet:///a",
            "sublet://blue/",
            "sublet://blue/a/",
            "sublet://blue/a/b",
            "sublet://blue/a?x",
            "sublet://blue/a#x",
            "sublet://me@blue/a",
            "sublet://blue:1/a",
            "sublet://blue/%61",
            "sublet://blue/a\0",
            "Sublet://blue/a",
            "https://blue/a",
        ];
        for text in wrong {
            let parsed: Result<CertificateUri, _> = text.parse();
            assert_eq!(parsed, Err(CertificateUriError::Malformed), "{text}");
        }
    }
}
