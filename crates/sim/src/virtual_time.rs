//! Time that passes only when something happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use sublet_types::Second;

/// An instant of the simulation: nanoseconds since it began (584 years of them at most).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The beginning.
    pub const START: Moment = Moment(0);

    /// The end of all time.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// Whole seconds since the beginning, as the store and the policies count time.
    pub fn second(self) -> Second {
        Second((self.0 / 1_000_000_000).min(u64::from(u32::MAX)) as u32)
    }

    /// Seconds since the beginning.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to now, or none where that is later.
    pub fn since(self, earlier: Moment) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Moment {
    type Output = Moment;
    fn add(self, span: Nanos) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanos> for Moment {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

/// A span of virtual time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// `n` microseconds.
    pub const fn micros(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000))
    }

    /// `n` seconds.
    pub const fn secs(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000_000))
    }

    /// In seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `n` times as long.
    pub const fn times(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(span.as_nanos().min(u128::from(u64::MAX)) as u64)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

/// `1.250 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.3} s", self.as_secs()))
    }
}

/// A span of time that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no span of time; write a number with us, ms, s, m, h or d, as in 90s")]
pub struct NanosError(pub String);

/// Reads `250us`, `10ms`, `90s`, `1.5h`; a bare number is seconds.
impl FromStr for Nanos {
    type Err = NanosError;

    fn from_str(text: &str) -> Result<Nanos, NanosError> {
        let wrong = || NanosError(text.to_owned());
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
            .then_some(Nanos((number * unit) as u64))
            .ok_or_else(wrong)
    }
}

/// From a written span, or a number of seconds.
impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Seconds(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Seconds(seconds) => Ok(Nanos::secs(u64::from(seconds))),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// What is to happen, in the order of time; at one instant, in the order in which it was entered.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    entries: BinaryHeap<Reverse<Entry<E>>>,
    /// Whether the first entry has happened. The next one that is entered takes its place, which costs half of taking one
    /// out and another in.
    is_first_over: bool,
    sequence: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda {
            entries: BinaryHeap::new(),
            is_first_over: false,
            sequence: 0,
        }
    }
}

impl<E: Copy> Agenda<E> {
    /// Enters that `event` happens at `at`.
    pub(crate) fn enter(&mut self, at: Moment, event: E) {
        self.sequence += 1;
        let entry = Reverse(Entry {
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
    pub(crate) fn next_at(&self) -> Moment {
        // One of the two below the first is the second.
        let (over, may_be_next) = match self.is_first_over {
            true => (1, 2),
            false => (0, 1),
        };
        let entries = self.entries.as_slice().iter();
        let next = entries.skip(over).take(may_be_next);
        let at = next.map(|Reverse(entry)| entry.at).min();
        at.unwrap_or(Moment::NEVER)
    }

    /// Takes the next event out.
    pub(crate) fn take(&mut self) -> Option<(Moment, E)> {
        if std::mem::replace(&mut self.is_first_over, true) {
            self.entries.pop();
        }
        let Reverse(entry) = self.entries.peek()?;
        Some((entry.at, entry.event))
    }
}

#[derive(Debug)]
struct Entry<E> {
    at: Moment,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn place(&self) -> (Moment, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        self.place() == other.place()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Entry<E>) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, nanos) in [
            ("250us", 250_000),
            ("1.5m", 90_000_000_000),
            (" 2", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        for wrong in ["", "-1s", "3 fortnights", "NaNs", "infs"] {
            assert!(wrong.parse::<Nanos>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn events_come_in_the_order_of_time_then_of_entry() {
        let mut agenda = Agenda::default();
        for (at, name) in [(5, "d"), (1, "a"), (5, "e"), (3, "b"), (3, "c")] {
            agenda.enter(Moment(at), name);
        }
        assert_eq!(agenda.next_at(), Moment(1));
        let order: Vec<&str> = std::iter::from_fn(|| agenda.take()).map(|e| e.1).collect();
        assert_eq!(order, ["a", "b", "c", "d", "e"]);
        assert_eq!(agenda.next_at(), Moment::NEVER);
    }

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut agenda = Agenda::default();
        let mut model: Vec<(Moment, u64)> = Vec::new();
        let mut chance = Chance::seeded(3);
        for entry in 0..20_000 {
            if chance.happens(0.5) {
                let at = Moment(chance.below(50));
                agenda.enter(at, entry);
                model.push((at, entry));
            } else {
                let next = model.iter().min().copied();
                model.retain(|entry| Some(*entry) != next);
                assert_eq!(agenda.take(), next);
            }
            let next_at = model.iter().map(|(at, _)| *at).min();
            assert_eq!(agenda.next_at(), next_at.unwrap_or(Moment::NEVER));
        }
    }
}
