//! Why disks could not be compared.

use super::super::cgroup::CgroupError;
use super::super::sublet_option::SubletNotFound;
use super::slow::tree::SourceTreeError;

/// Why disks could not be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    /// A required program is not there, or refuses to run.
    #[error("cannot start {program}: {why}; it comes with the package {package}")]
    Start {
        /// The program.
        program: &'static str,
        /// The cause.
        why: String,
        /// Debian's package.
        package: &'static str,
    },
    /// The program to measure was not found.
    #[error(transparent)]
    NoSublet(#[from] SubletNotFound),
    /// fio failed.
    #[error("fio failed: {0}")]
    Fio(String),
    /// The vhost-user driver failed.
    #[error("cannot drive {program} over vhost-user: {why}")]
    Drive {
        /// The server that was driven.
        program: &'static str,
        /// The cause.
        why: String,
    },
    /// A daemon does not tell what its disk did.
    #[error("cannot ask the daemon what its disk did: {0}")]
    Asked(#[from] sublet_client::AdminError),
    /// A layer above the disk answered everything.
    #[error("{0}: no read reached the disk, so the figures are not those of the disk")]
    Unread(&'static str),
    /// A file of a source tree failed.
    #[error("cannot use a file of the source tree: {0}")]
    Tree(#[from] SourceTreeError),
    /// The cgroup failed.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The system refused.
    #[error("the system refused what the bench needs: {0}")]
    System(#[from] std::io::Error),
}
