//! Assigns new connections to workers in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Mailbox;

/// Workers that take turns, whichever listener accepted a connection.
pub(crate) struct RoundRobin<L> {
    mailboxes: Vec<Arc<Mailbox<L>>>,
    next: AtomicUsize,
}

impl<L> RoundRobin<L> {
    /// Takes the mailboxes of at least one worker.
    pub(crate) fn new(mailboxes: Vec<Arc<Mailbox<L>>>) -> RoundRobin<L> {
        RoundRobin {
            mailboxes,
            next: AtomicUsize::new(0),
        }
    }

    /// Returns the mailbox of the next worker.
    pub(crate) fn next(&self) -> &Mailbox<L> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.mailboxes[next % self.mailboxes.len()]
    }

    /// Returns all mailboxes.
    pub(crate) fn all(&self) -> &[Arc<Mailbox<L>>] {
        &self.mailboxes
    }
}
