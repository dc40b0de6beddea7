//! The messages that other threads send to an NBD worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::group::Group;
use crate::serving::GroupPermit;

/// A connection on its way from the acceptor to its worker.
pub(super) struct AcceptedSocket {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) permit: GroupPermit<Group>,
}

/// Which connections are closed.
pub(super) enum ShutdownScope {
    /// The connections of a disk.
    Disk(String),
    /// The connections of a listener.
    Group(Arc<Group>),
    /// All connections.
    All,
}

/// A message to a worker. The limit on connections bounds how many `Accepted` there are.
pub(super) enum Message {
    Accepted(AcceptedSocket),
    /// Close these connections after what is under way is answered. The worker drops the sender when they are closed.
    Shutdown(ShutdownScope, Sender<()>),
}
