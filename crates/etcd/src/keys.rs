//! Where a cluster's keys stand in etcd: `/sublet/CLUSTER/1/…`. The 1 is the version of this layout.

use sublet_types::{ClusterName, NodeName};

/// The keys of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterKeys {
    prefix: String,
}

/// What a key below the prefix is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterKey {
    /// A node's registration.
    Node(NodeName),
    /// Who leads.
    Leader,
    /// The cluster's settings.
    Settings,
}

impl ClusterKeys {
    /// The keys of that cluster.
    pub fn new(cluster: &ClusterName) -> ClusterKeys {
        ClusterKeys {
            prefix: format!("/sublet/{cluster}/1/"),
        }
    }

    /// What all of them begin with, and no key of another cluster.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of a node's registration.
    pub fn node(&self, node: &NodeName) -> String {
        format!("{}nodes/{node}", self.prefix)
    }

    /// The key that the leader has.
    pub fn leader(&self) -> String {
        format!("{}leader", self.prefix)
    }

    /// The key of the cluster's settings.
    pub fn settings(&self) -> String {
        format!("{}settings", self.prefix)
    }

    /// Returns what a key is of. `None` for a key that this version does not know.
    pub fn parse(&self, key: &str) -> Option<ClusterKey> {
        match key.strip_prefix(&self.prefix)? {
            "leader" => Some(ClusterKey::Leader),
            "settings" => Some(ClusterKey::Settings),
            rest => rest
                .strip_prefix("nodes/")?
                .parse()
                .ok()
                .map(ClusterKey::Node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_parsed_as_what_it_was_made_for() {
        let keys = ClusterKeys::new(&"prod".parse().expect("a name"));
        let node: NodeName = "a.1".parse().expect("a name");
        assert_eq!(keys.node(&node), "/sublet/prod/1/nodes/a.1");
        assert_eq!(keys.parse(&keys.node(&node)), Some(ClusterKey::Node(node)));
        assert_eq!(keys.parse(&keys.leader()), Some(ClusterKey::Leader));
        assert_eq!(keys.parse(&keys.settings()), Some(ClusterKey::Settings));
    }

    #[test]
    fn foreign_keys_and_other_clusters_are_none() {
        let keys = ClusterKeys::new(&"prod".parse().expect("a name"));
        for key in [
            "/sublet/prod2/1/leader",
            "/sublet/prod/2/leader",
            "/sublet/prod/1/nodes/",
            "/sublet/prod/1/nodes/a/b",
            "/sublet/prod/1/other",
            "leader",
            "",
        ] {
            assert_eq!(keys.parse(key), None, "{key}");
        }
    }
}
