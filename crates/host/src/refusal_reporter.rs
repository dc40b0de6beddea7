//! Reports refused clients once per second, so that a client that comes again and again makes one event per second.

use crate::observe::events::{
    EventAmount, EventId, EventReason, EventSubject, Events, PostedEvent,
};

/// What was reported of the clients that a listener refused, by reason.
#[derive(Debug, Default)]
pub(crate) struct RefusalReporter(Vec<(EventReason, u64)>);

impl RefusalReporter {
    /// Reports which clients were refused since the last call. The counts are those since the start.
    pub(crate) fn report(
        &mut self,
        refused: &[(EventReason, u64)],
        object: impl FnOnce() -> EventSubject,
        events: &Events,
    ) {
        let more = self.unreported(refused);
        let object = match more.is_empty() {
            true => return,
            false => object(),
        };
        for (why, more) in more {
            let cause = PostedEvent::new(EventId::ConnectionsRefused, why).to(object.clone());
            let amount = match why {
                // A client that gets this answer may ask again in the same connection.
                EventReason::NoSuchExport => EventAmount::Failures(more),
                _ => EventAmount::Connections(more),
            };
            events.post(cause.times(more).of(amount));
        }
    }

    /// How many more there are than were reported, by reason.
    fn unreported(&mut self, refused: &[(EventReason, u64)]) -> Vec<(EventReason, u64)> {
        let reporter = std::mem::replace(&mut self.0, refused.to_vec());
        let before = |why: EventReason| {
            reporter
                .iter()
                .find(|reporter| reporter.0 == why)
                .map_or(0, |reporter| reporter.1)
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
        let mut reporter = RefusalReporter::default();
        let first = [
            (EventReason::Full, 3),
            (EventReason::Uid, 1),
            (EventReason::Exhausted, 0),
        ];
        assert_eq!(
            reporter.unreported(&first),
            [(EventReason::Full, 3), (EventReason::Uid, 1)]
        );
        let then = [
            (EventReason::Full, 3),
            (EventReason::Uid, 2),
            (EventReason::Exhausted, 7),
        ];
        assert_eq!(
            reporter.unreported(&then),
            [(EventReason::Uid, 1), (EventReason::Exhausted, 7)]
        );
        assert!(reporter.unreported(&then).is_empty());
    }
}
