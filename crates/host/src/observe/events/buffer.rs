//! The latest events, as many as fit.

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::{Event, PostedEvent};

/// Events in their order. The buffer drops the oldest first, and its size is bounded in bytes.
#[derive(Debug)]
pub(super) struct EventBuffer {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    bytes_max: usize,
    /// The number of the next event.
    next: u64,
    /// When the youngest of the dropped events happened, in Unix milliseconds.
    forgotten_until: Option<u64>,
}

/// Events from one number on.
#[derive(Debug)]
pub struct Excerpt {
    /// The events that are there.
    pub events: Vec<Arc<Event>>,
    /// How many of the requested events were dropped.
    pub lost: u64,
    /// Whether more events follow.
    pub more: bool,
}

impl EventBuffer {
    pub(super) fn new(bytes_max: usize) -> EventBuffer {
        EventBuffer {
            events: VecDeque::new(),
            bytes: 0,
            bytes_max,
            next: 1,
            forgotten_until: None,
        }
    }

    /// Gives a posted event the next number.
    pub(super) fn push(&mut self, at_millis: u64, cause: PostedEvent) -> Arc<Event> {
        let event = Arc::new(Event {
            seq: self.next,
            at_millis,
            cause,
        });
        self.next += 1;
        self.bytes += event.bytes();
        self.events.push_back(Arc::clone(&event));
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
            self.forgotten_until = Some(oldest.at_millis);
        }
        event
    }

    /// The number of the latest event, 0 before the first.
    pub(super) fn latest(&self) -> u64 {
        self.next - 1
    }

    /// Until when events were dropped, in Unix milliseconds.
    pub(super) fn forgotten_until(&self) -> Option<u64> {
        self.forgotten_until
    }

    /// All events, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    /// The events after that number, at most `most` of them.
    pub(super) fn after(&self, seq: u64, most: usize) -> Excerpt {
        let oldest = self.next - self.events.len() as u64;
        let from = (seq + 1).clamp(oldest, self.next);
        let skipped = (from - oldest) as usize;
        let events = self.events.iter().skip(skipped).take(most).cloned();
        Excerpt {
            events: events.collect(),
            lost: oldest.saturating_sub(seq + 1),
            more: self.events.len() - skipped > most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::id::EventId;
    use super::super::reason::EventReason;
    use super::*;

    fn cause(text: &str) -> PostedEvent {
        PostedEvent::new(EventId::PolicyChanged, EventReason::Kept).saying(text)
    }

    fn numbers(excerpt: &Excerpt) -> Vec<u64> {
        excerpt.events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn it_never_takes_more_than_its_bound_and_says_what_is_forgotten() {
        let mut ring = EventBuffer::new(64 << 10);
        for n in 0..10_000 {
            let text = "x".repeat(n % 600);
            ring.push(n as u64, cause(&text));
            let taken: usize = ring.iter().map(|event| event.bytes()).sum();
            assert_eq!(taken, ring.bytes);
            assert!(ring.bytes <= 64 << 10);
        }
        let kept = ring.iter().count() as u64;
        assert!(kept > 50, "{kept} of them");
        let all = ring.after(0, usize::MAX);
        assert_eq!(all.lost, 10_000 - kept);
        assert_eq!(
            numbers(&all),
            (10_001 - kept..=10_000).collect::<Vec<u64>>()
        );
        assert_eq!(ring.forgotten_until(), Some(9_999 - kept));
    }

    #[test]
    fn who_goes_on_has_each_event_once() {
        let mut ring = EventBuffer::new(1 << 20);
        assert_eq!((ring.latest(), ring.after(0, 9).lost), (0, 0));
        (0..5).for_each(|n| _ = ring.push(n, cause("")));
        let first = ring.after(0, 2);
        assert_eq!((numbers(&first), first.more), (vec![1, 2], true));
        let second = ring.after(2, 3);
        assert_eq!((numbers(&second), second.more), (vec![3, 4, 5], false));
        // This includes a caller that names a number still to come.
        for seq in [5, 6, 99] {
            let none = ring.after(seq, 3);
            assert_eq!((numbers(&none), none.lost, none.more), (vec![], 0, false));
        }
    }
}
