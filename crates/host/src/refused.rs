//! Clients that are not let in: looked for once a second, so that whoever comes again and again is an event a second.

use crate::observe::events::{Amount, Cause, EventId, Events, Object, Why};

/// What was told of the clients that a listener refused, by reason.
#[derive(Debug, Default)]
pub(crate) struct Told(Vec<(Why, u64)>);

impl Told {
    /// Tells who was refused since the last time, where so many were since the start.
    pub(crate) fn tell(
        &mut self,
        refused: &[(Why, u64)],
        object: impl FnOnce() -> Object,
        events: &Events,
    ) {
        let more = self.more(refused);
        let object = match more.is_empty() {
            true => return,
            false => object(),
        };
        for (why, more) in more {
            let cause = Cause::new(EventId::ConnectionsRefused, why).to(object.clone());
            let amount = match why {
                // Who is told so may ask again in the same connection.
                Why::NoSuchExport => Amount::Failures(more),
                _ => Amount::Connections(more),
            };
            events.post(cause.times(more).of(amount));
        }
    }

    /// How many more there are than were told of, by reason.
    fn more(&mut self, refused: &[(Why, u64)]) -> Vec<(Why, u64)> {
        let told = std::mem::replace(&mut self.0, refused.to_vec());
        let before = |why: Why| {
            told.iter()
                .find(|told| told.0 == why)
                .map_or(0, |told| told.1)
        };
        let more = refused
            .iter()
            .map(|(why, now)| (*why, now.saturating_sub(before(*why))));
        more.filter(|(_, more)| *more > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_refused_since_is_told_by_reason() {
        let mut told = Told::default();
        let first = [(Why::Full, 3), (Why::Uid, 1), (Why::Exhausted, 0)];
        assert_eq!(told.more(&first), [(Why::Full, 3), (Why::Uid, 1)]);
        let then = [(Why::Full, 3), (Why::Uid, 2), (Why::Exhausted, 7)];
        assert_eq!(told.more(&then), [(Why::Uid, 1), (Why::Exhausted, 7)]);
        assert!(told.more(&then).is_empty());
    }
}
