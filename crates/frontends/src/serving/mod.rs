//! Parts of which each protocol builds its service: threads with mailboxes, and the loop in which each thread waits.
//!
//! These are separate parts and no framework. Each protocol has its own events and applies them itself. No part knows a
//! protocol.

mod buffers;
mod group_permit;
mod mailbox;
mod poll_loop;
mod round_robin;
mod shutdown;
mod stream;
mod tenancies;
mod worker_threads;

pub(crate) use self::buffers::{BufferPool, ByteQueue};
pub(crate) use self::group_permit::{ConnectionFigures, ConnectionGroup, GroupPermit};
pub(crate) use self::mailbox::Mailbox;
pub(crate) use self::poll_loop::{PeerState, PollLoop};
pub(crate) use self::round_robin::RoundRobin;
pub use self::shutdown::{OnFailure, OnShutdown, StopMode};
pub(crate) use self::stream::{
    PeerGone, Readiness, ReceiveOutcome, SendBuffer, SendStatus, Stream,
};
pub(crate) use self::tenancies::Tenancies;
pub use self::worker_threads::StartError;
pub(crate) use self::worker_threads::{Work, WorkerThreads, spawn};
