//! Membership by etcd: who the other hosts are, who leads them, and the cluster's settings.
//!
//! ```text
//!  etcd ◄──calls──► thread `etcd` ──events──► thread `members` ──changes, inputs──► control thread
//! ```
//!
//! The first thread renews this host's lease, so it waits for nobody. The second one waits for the control thread.

mod cluster_settings;
mod etcd_files;
mod etcd_membership;
mod known_cluster;
mod member_news;

pub use etcd_files::{EtcdFiles, EtcdFilesError, RereadFiles};
pub use etcd_membership::{
    EtcdMembership, MembershipError, MembershipParts, MembershipStatus, check_etcd_files,
};
pub use known_cluster::KnownCluster;
pub use member_news::{ClusterNews, ClusterNotice, PlacementSource};
