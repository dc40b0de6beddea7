//! Why disks could not be compared.

use super::super::group::GroupError;
use super::super::ours::NoSublet;
use super::slow::tree::TreeError;

/// Why disks could not be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    /// A program that is needed is not there, or refuses.
    #[error("cannot start {program}: {why}; it comes with the package {package}")]
    Start {
        /// Which.
        program: &'static str,
        /// Why.
        why: String,
        /// Debian's package.
        package: &'static str,
    },
    /// There is nothing to measure.
    #[error(transparent)]
    NoSublet(#[from] NoSublet),
    /// fio failed.
    #[error("fio failed: {0}")]
    Fio(String),
    /// The vhost-user driver failed.
    #[error("driving {program} over vhost-user: {why}")]
    Drive {
        /// Who was driven.
        program: &'static str,
        /// Why.
        why: String,
    },
    /// A daemon does not say what its disk did.
    #[error("asking for what the disk did: {0}")]
    Asked(#[from] sublet_client::CallError),
    /// What is above the disk answered everything.
    #[error("{0}: no read reached the disk, so what was measured is not the disk")]
    Unread(&'static str),
    /// A file of a source tree.
    #[error("a file of the tree: {0}")]
    Tree(#[from] TreeError),
    /// The cgroup.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The system refused.
    #[error("the system refused what the bench needs: {0}")]
    System(#[from] std::io::Error),
}
