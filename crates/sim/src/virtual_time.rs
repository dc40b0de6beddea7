//! Time that passes only when something happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use sublet_types::Second;

/// An instant of the simulation: nanoseconds since it began (at most 584 years of them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualInstant(pub u64);

impl VirtualInstant {
    /// The beginning.
    pub const START: VirtualInstant = VirtualInstant(0);

    /// The end of time.
    pub const NEVER: VirtualInstant = VirtualInstant(u64::MAX);

    /// Whole seconds since the beginning, as the store and the policies count time.
    pub fn second(self) -> Second {
        Second((self.0 / 1_000_000_000).min(u64::from(u32::MAX)) as u32)
    }

    /// Seconds since the beginning.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time since `earlier`, or zero if that is later.
    pub fn since(self, earlier: VirtualInstant) -> VirtualDuration {
        VirtualDuration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<VirtualDuration> for VirtualInstant {
    type Output = VirtualInstant;
    fn add(self, span: VirtualDuration) -> VirtualInstant {
        VirtualInstant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<VirtualDuration> for VirtualInstant {
    fn add_assign(&mut self, span: VirtualDuration) {
        *self = *self + span;
    }
}

/// A span of virtual time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualDuration(pub u64);

impl VirtualDuration {
    /// `n` microseconds.
    pub const fn micros(n: u64) -> VirtualDuration {
        VirtualDuration(n.saturating_mul(1_000))
    }

    /// `n` seconds.
    pub const fn secs(n: u64) -> VirtualDuration {
        VirtualDuration(n.saturating_mul(1_000_000_000))
    }

    /// In seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `n` times as long.
    pub const fn times(self, n: u64) -> VirtualDuration {
        VirtualDuration(self.0.saturating_mul(n))
    }
}

impl From<Duration> for VirtualDuration {
    fn from(span: Duration) -> VirtualDuration {
        VirtualDuration(span.as_nanos().min(u128::from(u64::MAX)) as u64)
    }
}

impl From<VirtualDuration> for Duration {
    fn from(span: VirtualDuration) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl Add for VirtualDuration {
    type Output = VirtualDuration;
    fn add(self, other: VirtualDuration) -> VirtualDuration {
        VirtualDuration(self.0.saturating_add(other.0))
    }
}

impl AddAssign for VirtualDuration {
    fn add_assign(&mut self, other: VirtualDuration) {
        *self = *self + other;
    }
}

impl Sub for VirtualDuration {
    type Output = VirtualDuration;
    fn sub(self, other: VirtualDuration) -> VirtualDuration {
        VirtualDuration(self.0.saturating_sub(other.0))
    }
}

/// `1.250 s`.
impl fmt::Display for VirtualDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.3} s", self.as_secs()))
    }
}

/// A span of time that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no span of time; write a number with us, ms, s, m, h or d, as in 90s")]
pub struct VirtualDurationError(pub String);

/// Parses `250us`, `10ms`, `90s`, `1.5h`. A bare number is seconds.
impl FromStr for VirtualDuration {
    type Err = VirtualDurationError;

    fn from_str(text: &str) -> Result<VirtualDuration, VirtualDurationError> {
        let wrong = || VirtualDurationError(text.to_owned());
        let text_end = text.trim_end();
        let digits = text_end.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        let unit = match &text_end[digits.len()..] {
            "us" => 1e3,
            "ms" => 1e6,
            "" | "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return Err(wrong()),
        };
        let is_sensible = (0.0..1e18).contains(&(number * unit));
        is_sensible
            .then_some(VirtualDuration((number * unit) as u64))
            .ok_or_else(wrong)
    }
}

/// From a written span, or a number of seconds.
impl<'de> Deserialize<'de> for VirtualDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VirtualDuration, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum DurationRepr {
            Seconds(u32),
            Text(String),
        }
        match DurationRepr::deserialize(deserializer)? {
            DurationRepr::Seconds(seconds) => Ok(VirtualDuration::secs(u64::from(seconds))),
            DurationRepr::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Events in the order of time. Events of one instant keep the order in which they were entered.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    entries: BinaryHeap<Reverse<QueuedEvent<E>>>,
    /// Whether the first entry has happened. The next entry takes its place, which costs half of removing one and
    /// adding another.
    is_first_over: bool,
    sequence: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue {
            entries: BinaryHeap::new(),
            is_first_over: false,
            sequence: 0,
        }
    }
}

impl<E: Copy> EventQueue<E> {
    /// Schedules `event` at `at`.
    pub(crate) fn schedule(&mut self, at: VirtualInstant, event: E) {
        self.sequence += 1;
        let entry = Reverse(QueuedEvent {
            at,
            sequence: self.sequence,
            event,
        });
        let is_first_over = std::mem::take(&mut self.is_first_over);
        if is_first_over && let Some(mut first) = self.entries.peek_mut() {
            *first = entry;
        } else {
            self.entries.push(entry);
        }
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> VirtualInstant {
        // The earlier of the two below the first is the next one.
        let (over, may_be_next) = match self.is_first_over {
            true => (1, 2),
            false => (0, 1),
        };
        let entries = self.entries.as_slice().iter();
        let next = entries.skip(over).take(may_be_next);
        let at = next.map(|Reverse(entry)| entry.at).min();
        at.unwrap_or(VirtualInstant::NEVER)
    }

    /// Removes the next event.
    pub(crate) fn pop(&mut self) -> Option<(VirtualInstant, E)> {
        if std::mem::replace(&mut self.is_first_over, true) {
            self.entries.pop();
        }
        let Reverse(entry) = self.entries.peek()?;
        Some((entry.at, entry.event))
    }
}

#[derive(Debug)]
struct QueuedEvent<E> {
    at: VirtualInstant,
    sequence: u64,
    event: E,
}

impl<E> QueuedEvent<E> {
    fn place(&self) -> (VirtualInstant, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for QueuedEvent<E> {
    fn eq(&self, other: &QueuedEvent<E>) -> bool {
        self.place() == other.place()
    }
}

impl<E> Eq for QueuedEvent<E> {}

impl<E> PartialOrd for QueuedEvent<E> {
    fn partial_cmp(&self, other: &QueuedEvent<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for QueuedEvent<E> {
    fn cmp(&self, other: &QueuedEvent<E>) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SimRng;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, nanos) in [
            ("250us", 250_000),
            ("1.5m", 90_000_000_000),
            (" 2", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(VirtualDuration(nanos)), "{text}");
        }
        for wrong in ["", "-1s", "3 fortnights", "NaNs", "infs"] {
            assert!(wrong.parse::<VirtualDuration>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn events_come_in_the_order_of_time_then_of_entry() {
        let mut agenda = EventQueue::default();
        for (at, name) in [(5, "d"), (1, "a"), (5, "e"), (3, "b"), (3, "c")] {
            agenda.schedule(VirtualInstant(at), name);
        }
        assert_eq!(agenda.next_at(), VirtualInstant(1));
        let order: Vec<&str> = std::iter::from_fn(|| agenda.pop()).map(|e| e.1).collect();
        assert_eq!(order, ["a", "b", "c", "d", "e"]);
        assert_eq!(agenda.next_at(), VirtualInstant::NEVER);
    }

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut agenda = EventQueue::default();
        let mut model: Vec<(VirtualInstant, u64)> = Vec::new();
        let mut rng = SimRng::seeded(3);
        for entry in 0..20_000 {
            if rng.happens(0.5) {
                let at = VirtualInstant(rng.below(50));
                agenda.schedule(at, entry);
                model.push((at, entry));
            } else {
                let next = model.iter().min().copied();
                model.retain(|entry| Some(*entry) != next);
                assert_eq!(agenda.pop(), next);
            }
            let next_at = model.iter().map(|(at, _)| *at).min();
            assert_eq!(agenda.next_at(), next_at.unwrap_or(VirtualInstant::NEVER));
        }
    }
}
