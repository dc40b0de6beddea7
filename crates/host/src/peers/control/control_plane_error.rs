//! Why the control plane did not start.

use std::io;

use sublet_lend::node::NodeSettingsError;
use sublet_store::TooManyWorkers;
use sublet_tls::peer::PeerCredentialError;

use super::settings::LISTENERS_MAX;

/// Why the control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// A certificate, its key or the authorities cannot be used.
    #[error(transparent)]
    Credentials(#[from] PeerCredentialError),
    /// The list of members is wrong.
    #[error(transparent)]
    Members(#[from] NodeSettingsError),
    /// The store has no room for another thread.
    #[error("lending cannot start: {0}")]
    Workers(#[from] TooManyWorkers),
    /// There are too many sockets that listen.
    #[error(
        "lending has {0} sockets that listen; {LISTENERS_MAX} are the most: shorten `peers.listen`"
    )]
    Listeners(usize),
    /// The kernel gives no random bytes.
    #[error("lending cannot start: the kernel gives no random bytes")]
    Random,
    /// The kernel refused a thread or its means to wait.
    #[error("lending cannot start: {0}")]
    Kernel(#[from] io::Error),
}
