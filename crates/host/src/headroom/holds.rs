//! Holds: how long memory that was released by hand stays released.

use std::time::Duration;

use sublet_types::Bytes;

/// The most holds at once.
pub const HOLDS_MAX: usize = 64;

/// There is no room for one more hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {HOLDS_MAX} holds already, the most at once; wait for one to end")]
pub struct TooManyHolds;

#[derive(Clone, Copy, Debug)]
struct Hold {
    cap: Bytes,
    until: Duration,
}

/// The holds in force.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<Hold>);

impl Holds {
    /// Keeps the arena at `cap` until then.
    pub(super) fn add(
        &mut self,
        cap: Bytes,
        now: Duration,
        until: Duration,
    ) -> Result<(), TooManyHolds> {
        self.0.retain(|hold| hold.until > now);
        if self.0.len() >= HOLDS_MAX {
            return Err(TooManyHolds);
        }
        self.0.push(Hold { cap, until });
        Ok(())
    }

    /// The most that the arena may hold.
    pub(super) fn cap(&self, now: Duration) -> Option<Bytes> {
        let lasting = self.0.iter().filter(|hold| hold.until > now);
        lasting.map(|hold| hold.cap).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_cap_binds_while_it_lasts() {
        let at = Duration::from_secs;
        let mut holds = Holds::default();
        assert_eq!(holds.cap(at(0)), None);
        holds.add(Bytes::mib(10), at(0), at(5)).expect("room");
        holds.add(Bytes::mib(20), at(0), at(9)).expect("room");
        assert_eq!(holds.cap(at(4)), Some(Bytes::mib(10)));
        assert_eq!(holds.cap(at(5)), Some(Bytes::mib(20)));
        assert_eq!(holds.cap(at(9)), None);
    }

    #[test]
    fn there_is_a_bound_and_ended_holds_make_room() {
        let at = Duration::from_secs;
        let mut holds = Holds::default();
        for _ in 0..HOLDS_MAX {
            holds.add(Bytes::ZERO, at(0), at(1)).expect("room");
        }
        assert_eq!(holds.add(Bytes::ZERO, at(0), at(1)), Err(TooManyHolds));
        assert_eq!(holds.add(Bytes::ZERO, at(1), at(2)), Ok(()));
    }
}
