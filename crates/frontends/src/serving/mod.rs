//! Parts of a machine that serves: threads with their mailboxes, and the loop that each of them waits in.
//!
//! A box of parts, not a frame: each protocol has its own events and applies them itself. No part knows a protocol.

mod buffers;
mod crew;
mod end;
mod mailbox;
mod permit;
mod poll_loop;
mod round_robin;
mod stream;
mod tenancies;

pub(crate) use self::buffers::{BufferPool, ByteQueue};
pub use self::crew::StartError;
pub(crate) use self::crew::{Crew, Work, spawn};
pub use self::end::{Asked, Stop};
pub(crate) use self::mailbox::Mailbox;
pub(crate) use self::permit::{Admissions, Admits, Permit};
pub(crate) use self::poll_loop::{PollLoop, Presence};
pub(crate) use self::round_robin::RoundRobin;
pub(crate) use self::stream::{Came, Flow, Gone, Outgoing, Readiness, Stream};
pub(crate) use self::tenancies::Tenancies;
