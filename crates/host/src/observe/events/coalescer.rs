//! Joins repeated causes: a cause that repeats becomes one event per second, with a count.

use std::collections::HashMap;
use std::time::Duration;

use super::event::{Actor, EventSubject, PostedEvent};
use super::id::EventId;
use super::reason::EventReason;

/// How long repetitions are gathered.
pub(super) const GATHERED: Duration = Duration::from_secs(1);

/// The most causes that are told apart at a time. Further causes are not gathered.
const CAUSES_MAX: usize = 1024;

/// What two causes must share to be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RepeatKey {
    id: EventId,
    why: EventReason,
    object: EventSubject,
    actor: Actor,
}

/// A cause that became an event recently.
#[derive(Debug)]
struct RecentEvent {
    /// When.
    event_at: Duration,
    /// What came since then, and when the last of it came, in Unix milliseconds.
    since: Option<(u64, PostedEvent)>,
}

/// The causes of the last second. Time is an argument.
#[derive(Debug, Default)]
pub(super) struct RepeatCoalescer {
    lately: HashMap<RepeatKey, RecentEvent>,
}

impl RepeatCoalescer {
    /// Takes a cause, and gives it back if it is to be an event now. The first one is, and its repetitions wait.
    pub(super) fn admit(
        &mut self,
        now: Duration,
        at_millis: u64,
        cause: PostedEvent,
    ) -> Option<PostedEvent> {
        let key = RepeatKey {
            id: cause.id,
            why: cause.why,
            object: cause.object.clone(),
            actor: cause.actor,
        };
        if let Some(lately) = self.lately.get_mut(&key) {
            match &mut lately.since {
                Some((at, sum)) => {
                    *at = at_millis;
                    sum.add(cause);
                }
                none => *none = Some((at_millis, cause)),
            }
            return None;
        }
        if self.lately.len() < CAUSES_MAX {
            let lately = RecentEvent {
                event_at: now,
                since: None,
            };
            self.lately.insert(key, lately);
        }
        Some(cause)
    }

    /// The causes that waited long enough and are events now, the earliest first.
    pub(super) fn due(&mut self, now: Duration) -> Vec<(u64, PostedEvent)> {
        self.drain_due(
            |lately| now.saturating_sub(lately.event_at) >= GATHERED,
            now,
        )
    }

    /// All causes that wait, at the end.
    pub(super) fn all(&mut self, now: Duration) -> Vec<(u64, PostedEvent)> {
        self.drain_due(|_| true, now)
    }

    fn drain_due(
        &mut self,
        is_due: impl Fn(&RecentEvent) -> bool,
        now: Duration,
    ) -> Vec<(u64, PostedEvent)> {
        let mut taken = Vec::new();
        self.lately.retain(|_, lately| {
            if !is_due(lately) {
                return true;
            }
            let since = lately.since.take();
            let repeats = since.is_some();
            taken.extend(since);
            lately.event_at = now;
            repeats
        });
        taken.sort_by_key(|(at, _)| *at);
        taken
    }

    /// How long until a cause is due, if any waits.
    pub(super) fn due_in(&self, now: Duration) -> Option<Duration> {
        let ends = self
            .lately
            .values()
            .map(|lately| lately.event_at + GATHERED);
        ends.min().map(|end| end.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::Bytes;

    use super::super::event::EventAmount;
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn refused(tenant: &str) -> PostedEvent {
        let name = tenant.parse().expect("a name");
        PostedEvent::new(EventId::TenantRefused, EventReason::Pages).to_tenant(&name)
    }

    /// The events of a cause that comes once per millisecond: when each was made, and how often it happened.
    fn told(millis: u32) -> Vec<(u32, u64)> {
        let mut repeats = RepeatCoalescer::default();
        let mut told = Vec::new();
        for at in 0..millis {
            let due = repeats.due(at * MILLI);
            told.extend(due.iter().map(|(_, cause)| (at, cause.count)));
            let now = repeats.admit(at * MILLI, 0, refused("web"));
            told.extend(now.map(|cause| (at, cause.count)));
        }
        let rest = repeats.all(millis * MILLI);
        told.extend(rest.iter().map(|(_, cause)| (millis, cause.count)));
        told
    }

    #[test]
    fn the_first_is_told_at_once_and_what_repeats_it_once_a_second() {
        assert_eq!(told(1), [(0, 1)]);
        let long = told(3500);
        assert_eq!(
            long,
            [(0, 1), (1000, 999), (2000, 1000), (3000, 1000), (3500, 500)]
        );
        let all: u64 = long.iter().map(|(_, count)| count).sum();
        assert_eq!(all, 3500, "none is lost");
    }

    #[test]
    fn what_rested_for_a_second_is_told_at_once_again() {
        let mut repeats = RepeatCoalescer::default();
        assert!(repeats.admit(Duration::ZERO, 0, refused("web")).is_some());
        assert_eq!(repeats.due_in(400 * MILLI), Some(600 * MILLI));
        assert_eq!(repeats.due(GATHERED), []);
        assert_eq!(repeats.due_in(GATHERED), None);
        assert!(repeats.admit(GATHERED, 0, refused("web")).is_some());
    }

    #[test]
    fn others_are_told_apart_and_amounts_add_up() {
        let mut repeats = RepeatCoalescer::default();
        let given = |mib| {
            let cause = PostedEvent::new(EventId::ReleaseFast, EventReason::Host);
            cause.of(EventAmount::Bytes(Bytes::mib(mib)))
        };
        let all = [
            refused("web"),
            refused("wiki"),
            given(1),
            given(2),
            given(4),
        ];
        let at_once = all
            .into_iter()
            .filter_map(|cause| repeats.admit(Duration::ZERO, 7, cause));
        assert_eq!(at_once.count(), 3);
        let due = repeats.due(GATHERED);
        let [(7, cause)] = &due[..] else {
            panic!("one of them repeats: {due:?}");
        };
        assert_eq!(cause.amount, Some(EventAmount::Bytes(Bytes::mib(6))));
        assert_eq!(cause.count, 2);
    }

    #[test]
    fn what_is_gathered_is_bounded_and_nothing_beyond_is_lost() {
        let mut repeats = RepeatCoalescer::default();
        let many = 3 * CAUSES_MAX;
        let told = (0..many).filter(|n| {
            let cause = refused(&format!("t{n}"));
            repeats.admit(Duration::ZERO, 0, cause).is_some()
        });
        assert_eq!(told.count(), many);
        assert_eq!(repeats.lately.len(), CAUSES_MAX);
        assert_eq!(repeats.due(GATHERED), []);
        assert!(repeats.lately.is_empty());
    }
}
