//! One of the connections that a listener takes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::doors::{Lobby, Place};
use crate::figures::Figure;

/// What is counted of those who come.
pub(crate) struct Admissions<'a> {
    /// Connections that are open.
    pub(crate) open: &'a Figure,
    /// Connections that were made.
    pub(crate) made: &'a Figure,
    /// Those that found no place.
    pub(crate) refused: &'a Figure,
    /// Those that gave theirs to another, where that is counted.
    pub(crate) gave_way: Option<&'a Figure>,
}

/// What takes a number of connections, and counts them.
pub(crate) trait Admits {
    fn lobby(&self) -> &Arc<Lobby>;
    fn admissions(&self) -> Admissions<'_>;
}

/// A connection's place in its group; free again when dropped.
pub(crate) struct Permit<G: Admits> {
    group: Arc<G>,
    place: Place,
}

impl<G: Admits> Permit<G> {
    /// A place for who comes by that socket; none where all are taken and nobody gives way.
    pub(crate) fn take(group: &Arc<G>, socket: &Arc<OwnedFd>) -> Option<Permit<G>> {
        let counts = group.admissions();
        let Ok((place, gave_way)) = group.lobby().enter(socket, Instant::now()) else {
            counts.refused.bump();
            return None;
        };
        if let (Some(_), Some(count)) = (gave_way, counts.gave_way) {
            count.bump();
        }
        counts.open.bump();
        counts.made.bump();
        let group = Arc::clone(group);
        Some(Permit { group, place })
    }

    pub(crate) fn group(&self) -> &Arc<G> {
        &self.group
    }

    /// Something came of its owner, which has longer now to say the rest.
    pub(crate) fn begin(&self) {
        self.place.begin();
    }

    /// Its owner has asked for something, and may: it gives way to nobody from now on.
    pub(crate) fn keep(&self) {
        self.place.speak();
    }
}

impl<G: Admits> Drop for Permit<G> {
    fn drop(&mut self) {
        self.group.admissions().open.drop_one();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::doors::{SILENCE_MAX, WhenFull};

    struct Group {
        lobby: Arc<Lobby>,
        open: Figure,
        made: Figure,
        refused: Figure,
        gave_way: Figure,
    }

    impl Admits for Group {
        fn lobby(&self) -> &Arc<Lobby> {
            &self.lobby
        }

        fn admissions(&self) -> Admissions<'_> {
            Admissions {
                open: &self.open,
                made: &self.made,
                refused: &self.refused,
                gave_way: Some(&self.gave_way),
            }
        }
    }

    #[test]
    fn there_are_so_many_and_who_leaves_makes_room() {
        let group = Arc::new(Group {
            lobby: Lobby::new(2, SILENCE_MAX, WhenFull::IsRefused),
            open: Figure::default(),
            made: Figure::default(),
            refused: Figure::default(),
            gave_way: Figure::default(),
        });
        let (here, _there) = UnixStream::pair().expect("a pair");
        let socket = Arc::new(here.into());
        let permits = [(); 2].map(|()| Permit::take(&group, &socket).expect("a place"));
        permits.iter().for_each(Permit::keep);
        assert!(Permit::take(&group, &socket).is_none());
        let [first, _second] = permits;
        drop(first);
        let _third = Permit::take(&group, &socket).expect("its place");
        let counts = [&group.open, &group.made, &group.refused, &group.gave_way];
        assert_eq!(counts.map(Figure::get), [2, 3, 1, 0]);
    }
}
