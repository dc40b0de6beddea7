//! What an NBD worker is told.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::group::Group;
use crate::serving::Permit;

/// A connection on its way from the acceptor to its worker.
pub(super) struct Newcomer {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) permit: Permit<Group>,
}

/// Whose connections end.
pub(super) enum Parting {
    /// Those of a disk.
    Disk(String),
    /// Those that came in at a listener.
    Group(Arc<Group>),
    /// All.
    All,
}

/// What others tell a worker. Newcomers are bounded by the seats.
pub(super) enum Message {
    Newcomer(Newcomer),
    /// These connections end once what is under way is answered. The sender is dropped when they are gone.
    Part(Parting, Sender<()>),
}
