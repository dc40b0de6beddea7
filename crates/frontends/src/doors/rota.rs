//! Whose turn it is to get a newcomer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Workers who take turns, whichever door somebody came in by.
pub(crate) struct Rota<P> {
    posts: Vec<Arc<P>>,
    next: AtomicUsize,
}

impl<P> Rota<P> {
    /// At least one worker, by where it gets its letters.
    pub(crate) fn new(posts: Vec<Arc<P>>) -> Rota<P> {
        Rota {
            posts,
            next: AtomicUsize::new(0),
        }
    }

    /// Whose turn it is.
    pub(crate) fn next(&self) -> &P {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.posts[next % self.posts.len()]
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Arc<P>] {
        &self.posts
    }
}
