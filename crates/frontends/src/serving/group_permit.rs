//! The permit of a connection in its group of connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::figures::AtomicFigure;
use crate::listeners::{ConnectionLimiter, ConnectionPermit};

/// The figures that a group counts of its connections.
pub(crate) struct ConnectionFigures<'a> {
    /// Connections that are open.
    pub(crate) open: &'a AtomicFigure,
    /// Connections that were made.
    pub(crate) made: &'a AtomicFigure,
    /// Connections that got no permit.
    pub(crate) refused: &'a AtomicFigure,
    /// Connections that lost their permit to another one; `None` if the group does not count them.
    pub(crate) displaced: Option<&'a AtomicFigure>,
}

/// A group of connections with a limit and figures.
pub(crate) trait ConnectionGroup {
    fn limiter(&self) -> &Arc<ConnectionLimiter>;
    fn connection_figures(&self) -> ConnectionFigures<'_>;
}

/// A connection's permit in its group. Dropping it frees it.
pub(crate) struct GroupPermit<G: ConnectionGroup> {
    group: Arc<G>,
    permit: ConnectionPermit,
}

impl<G: ConnectionGroup> GroupPermit<G> {
    /// Takes a permit for the peer behind `socket`. Returns `None` if all are taken and no peer can be displaced.
    pub(crate) fn acquire(
        group: &Arc<G>,
        socket: &Arc<OwnedFd>,
        now: Instant,
    ) -> Option<GroupPermit<G>> {
        let counts = group.connection_figures();
        let Ok((permit, displaced)) = group.limiter().enter(socket, now) else {
            counts.refused.bump();
            return None;
        };
        if let (Some(_), Some(count)) = (displaced, counts.displaced) {
            count.bump();
        }
        counts.open.bump();
        counts.made.bump();
        let group = Arc::clone(group);
        Some(GroupPermit { group, permit })
    }

    pub(crate) fn group(&self) -> &Arc<G> {
        &self.group
    }

    /// Marks the peer as having sent something. It has longer now to send the rest.
    pub(crate) fn mark_begun(&self) {
        self.permit.mark_begun();
    }

    /// Marks the peer as having made a request that it may make. It is never displaced from now on.
    pub(crate) fn mark_spoken(&self) {
        self.permit.mark_spoken();
    }
}

impl<G: ConnectionGroup> Drop for GroupPermit<G> {
    fn drop(&mut self) {
        self.group.connection_figures().open.decrement();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::listeners::{SILENCE_MAX, WhenFull};

    struct Group {
        limiter: Arc<ConnectionLimiter>,
        open: AtomicFigure,
        made: AtomicFigure,
        refused: AtomicFigure,
        displaced: AtomicFigure,
    }

    impl ConnectionGroup for Group {
        fn limiter(&self) -> &Arc<ConnectionLimiter> {
            &self.limiter
        }

        fn connection_figures(&self) -> ConnectionFigures<'_> {
            ConnectionFigures {
                open: &self.open,
                made: &self.made,
                refused: &self.refused,
                displaced: Some(&self.displaced),
            }
        }
    }

    #[test]
    fn permits_are_limited_and_a_dropped_one_is_free_again() {
        let group = Arc::new(Group {
            limiter: ConnectionLimiter::new(2, SILENCE_MAX, WhenFull::IsRefused),
            open: AtomicFigure::default(),
            made: AtomicFigure::default(),
            refused: AtomicFigure::default(),
            displaced: AtomicFigure::default(),
        });
        let (here, _there) = UnixStream::pair().expect("a pair");
        let (socket, now) = (Arc::new(here.into()), Instant::now());
        let acquire = || GroupPermit::acquire(&group, &socket, now);
        let permits = [(); 2].map(|()| acquire().expect("a permit"));
        permits.iter().for_each(GroupPermit::mark_spoken);
        assert!(acquire().is_none());
        let [first, _second] = permits;
        drop(first);
        let _third = acquire().expect("a free permit");
        let counts = [&group.open, &group.made, &group.refused, &group.displaced];
        assert_eq!(counts.map(AtomicFigure::get), [2, 3, 1, 0]);
    }
}
