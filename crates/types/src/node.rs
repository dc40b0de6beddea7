//! Nodes: the daemons that lend memory to each other, and the cluster that they form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most bytes of a node's or a cluster's name. A certificate's common name holds no more.
const NAME_BYTES_MAX: usize = 64;

/// A node's name: 1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit. Capitals count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// A cluster's name, of the same letters as a node's. Only nodes of one cluster lend to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

/// A block that a host has lent. It names one lending of the block; a later one has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LentBlock {
    /// The block's number in the lender's arena.
    pub block: u32,
    /// The number of the block's opening. No later opening of any block has it.
    pub opening: u64,
}

/// Why a node's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a node: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit"
)]
pub struct NodeNameError(pub String);

/// Why a cluster's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a cluster: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit"
)]
pub struct ClusterNameError(pub String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The cluster of those who name none: `default`.
impl Default for ClusterName {
    fn default() -> ClusterName {
        ClusterName("default".to_owned())
    }
}

/// Returns whether a text can be a name.
fn is_name(text: &str) -> bool {
    let first_fits = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    first_fits && text.chars().all(fits) && text.len() <= NAME_BYTES_MAX
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<NodeName, NodeNameError> {
        match is_name(text) {
            true => Ok(NodeName(text.to_owned())),
            false => Err(NodeNameError(text.to_owned())),
        }
    }
}

impl FromStr for ClusterName {
    type Err = ClusterNameError;

    fn from_str(text: &str) -> Result<ClusterName, ClusterNameError> {
        match is_name(text) {
            true => Ok(ClusterName(text.to_owned())),
            false => Err(ClusterNameError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for NodeName {
    type Error = NodeNameError;

    fn try_from(text: String) -> Result<NodeName, NodeNameError> {
        match is_name(&text) {
            true => Ok(NodeName(text)),
            false => Err(NodeNameError(text)),
        }
    }
}

impl TryFrom<String> for ClusterName {
    type Error = ClusterNameError;

    fn try_from(text: String) -> Result<ClusterName, ClusterNameError> {
        text.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> String {
        name.0
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> String {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_a_file_name_a_uri_and_a_certificate() {
        let longest = "n".repeat(64);
        for good in ["a", "7", "node-1.rack_2", "A", &longest] {
            let node = good.parse::<NodeName>().expect(good);
            let cluster = good.parse::<ClusterName>().expect(good);
            assert_eq!((node.as_str(), cluster.as_str()), (good, good));
        }
        let too_long = "n".repeat(65);
        for bad in [
            "", ".", "-a", "_a", "a/b", "a b", "a:1", "ä", "a\n", "a%2f", &too_long,
        ] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn who_names_no_cluster_is_in_the_default_one() {
        assert_eq!(ClusterName::default().as_str(), "default");
        let text = String::from(ClusterName::default());
        assert_eq!(text.parse(), Ok(ClusterName::default()));
    }
}
