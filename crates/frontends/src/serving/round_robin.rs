//! Whose turn it is to get a newcomer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Mailbox;

/// Workers who take turns, whichever door somebody came in by.
pub(crate) struct RoundRobin<L> {
    mailboxes: Vec<Arc<Mailbox<L>>>,
    next: AtomicUsize,
}

impl<L> RoundRobin<L> {
    /// At least one worker, by its mailbox.
    pub(crate) fn new(mailboxes: Vec<Arc<Mailbox<L>>>) -> RoundRobin<L> {
        RoundRobin {
            mailboxes,
            next: AtomicUsize::new(0),
        }
    }

    /// Whose turn it is.
    pub(crate) fn next(&self) -> &Mailbox<L> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.mailboxes[next % self.mailboxes.len()]
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Arc<Mailbox<L>>] {
        &self.mailboxes
    }
}
