//! A listener's places: who may have one, and who gives one back. Time is an argument.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};

/// Who has said nothing for this long gives its place to whoever comes, where places are short; where there are none,
/// much sooner. Where there is
/// something to prove, a token or a password, nothing is said before that is proven.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Whoever is let in has so long to say something, whatever crowd comes. Once all places are taken, nobody who is silent
/// has longer: whoever waits outside waits so long for each `most` who came before.
const HEARING: Duration = Duration::from_millis(50);

/// One place in so many is kept for those who have spoken: who comes takes one only while nobody else gives way.
const KEPT_ONE_IN: usize = 8;

/// Whose place it is.
type Ticket = u64;

/// What whoever comes is told.
#[derive(Debug, PartialEq, Eq)]
enum Entry<T> {
    /// There is a place.
    In(Ticket),
    /// There is one, since that one gives way.
    InsteadOf(Ticket, T),
    /// There is none. `until`: somebody gives way then.
    Full { until: Option<Instant> },
}

/// Who is there, and who of them has yet to speak.
#[derive(Debug)]
struct Places<T> {
    most: usize,
    silence_max: Duration,
    came: Ticket,
    /// In the order in which they came.
    silent: BTreeMap<Ticket, (Instant, T)>,
    spoken: HashSet<Ticket>,
}

impl<T> Places<T> {
    fn new(most: usize, silence_max: Duration) -> Places<T> {
        Places {
            most,
            silence_max,
            came: 0,
            silent: BTreeMap::new(),
            spoken: HashSet::new(),
        }
    }

    fn free(&self) -> usize {
        let taken = self.silent.len() + self.spoken.len();
        self.most.saturating_sub(taken)
    }

    /// When the first of the silent gives way to whoever comes; `None` while there is room, or nobody is silent.
    fn gives_way_at(&self) -> Option<Instant> {
        let hearing = match self.free() {
            0 => HEARING.min(self.silence_max),
            free if free <= self.most / KEPT_ONE_IN => self.silence_max,
            _ => return None,
        };
        let (_, (since, _)) = self.silent.first_key_value()?;
        Some(*since + hearing)
    }

    /// Until when whoever comes had better wait: all places are taken, and somebody gives way soon.
    fn waits_until(&self, now: Instant) -> Option<Instant> {
        let until = self.gives_way_at().filter(|until| *until > now);
        until.filter(|_| self.free() == 0)
    }

    fn enter(&mut self, who: T, now: Instant) -> Entry<T> {
        let until = self.gives_way_at();
        if until.is_some_and(|until| until <= now) {
            let first = self.silent.pop_first();
            let ticket = self.admit(who, now);
            return match first {
                Some((_, (_, first))) => Entry::InsteadOf(ticket, first),
                None => Entry::In(ticket),
            };
        }
        match self.free() {
            0 => Entry::Full { until },
            _ => Entry::In(self.admit(who, now)),
        }
    }

    fn admit(&mut self, who: T, now: Instant) -> Ticket {
        self.came += 1;
        self.silent.insert(self.came, (now, who));
        self.came
    }

    /// Who had to give way has no place to keep.
    fn speak(&mut self, ticket: Ticket) {
        if self.silent.remove(&ticket).is_some() {
            self.spoken.insert(ticket);
        }
    }

    fn leave(&mut self, ticket: Ticket) {
        let _ = self.silent.remove(&ticket).is_some() || self.spoken.remove(&ticket);
    }
}

/// All places were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Somebody gives way then.
    pub until: Option<Instant>,
}

/// The places of a listener, for the threads that share it.
#[derive(Debug)]
pub struct Lobby(Mutex<Places<Arc<OwnedFd>>>);

impl Lobby {
    /// So many places, none taken. Who is silent longer than `silence_max` gives way where places are short;
    /// [`SILENCE_MAX`] outside tests. Where there are none it gives way sooner.
    pub fn new(most: usize, silence_max: Duration) -> Arc<Lobby> {
        Arc::new(Lobby(Mutex::new(Places::new(most, silence_max))))
    }

    /// A place for who comes by that socket. `Some` besides if another lost its place for it: that one's socket is shut,
    /// which its owner hears as the end.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn enter(
        self: &Arc<Lobby>,
        socket: &Arc<OwnedFd>,
        now: Instant,
    ) -> Result<(Place, Option<GaveWay>), Full> {
        let entry = self.0.lock().enter(Arc::clone(socket), now);
        let (ticket, gave_way) = match entry {
            Entry::In(ticket) => (ticket, None),
            Entry::InsteadOf(ticket, other) => {
                // One that has gone meanwhile needs no end.
                let _ = shutdown(&other, Shutdown::Both);
                (ticket, Some(GaveWay))
            }
            Entry::Full { until } => return Err(Full { until }),
        };
        let place = Place {
            lobby: Arc::clone(self),
            ticket,
            has_spoken: AtomicBool::new(false),
        };
        Ok((place, gave_way))
    }

    /// Whether whoever comes had better wait outside: somebody gives way soon.
    pub(crate) fn is_full_for_now(&self, now: Instant) -> bool {
        self.0.lock().waits_until(now).is_some()
    }
}

/// Somebody who said nothing lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveWay;

/// A place; free again when dropped.
#[derive(Debug)]
pub struct Place {
    lobby: Arc<Lobby>,
    ticket: Ticket,
    has_spoken: AtomicBool,
}

impl Place {
    /// Its owner has said something, or has proven who it is: from now on it gives way to nobody.
    pub fn speak(&self) {
        if !self.has_spoken.load(Ordering::Relaxed) {
            self.has_spoken.store(true, Ordering::Relaxed);
            self.lobby.0.lock().speak(self.ticket);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lobby.0.lock().leave(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 16;

    fn full_at(now: Instant) -> Places<usize> {
        let mut places = Places::new(MOST, SILENCE_MAX);
        for who in 0..MOST {
            assert_eq!(places.enter(who, now), Entry::In(who as Ticket + 1));
        }
        places
    }

    #[test]
    fn the_oldest_who_is_silent_gives_way_and_nobody_sooner() {
        let now = Instant::now();
        let mut places = full_at(now);
        let due = now + HEARING;
        let sooner = due - Duration::from_millis(1);
        assert_eq!(
            places.enter(99, sooner),
            Entry::Full { until: Some(due) },
            "all are young"
        );
        assert_eq!(places.waits_until(sooner), Some(due));
        assert_eq!(places.waits_until(due), None);
        for who in 0..MOST {
            let entry = places.enter(100 + who, due);
            assert!(
                matches!(entry, Entry::InsteadOf(_, oldest) if oldest == who),
                "{entry:?}"
            );
        }
        assert_eq!(places.free(), 0, "as many as there may be");
    }

    #[test]
    fn who_has_spoken_keeps_its_place() {
        let now = Instant::now();
        let mut places = full_at(now);
        (1..=MOST as Ticket).for_each(|ticket| places.speak(ticket));
        let late = now + 100 * SILENCE_MAX;
        assert_eq!(places.enter(99, late), Entry::Full { until: None });
        assert_eq!(places.waits_until(late), None, "nobody waits for nothing");
        places.leave(3);
        assert!(matches!(places.enter(99, late), Entry::In(_)));
    }

    #[test]
    fn nobody_gives_way_while_places_are_plenty_and_some_are_kept() {
        let now = Instant::now();
        let mut places = Places::new(MOST, SILENCE_MAX);
        for who in 0..MOST - 2 {
            let at = now + (who as u32) * SILENCE_MAX;
            assert!(matches!(places.enter(who, at), Entry::In(_)), "{who}");
        }
        let late = now + 100 * SILENCE_MAX;
        for who in 0..100 {
            let entry = places.enter(who, late + who as u32 * SILENCE_MAX);
            assert!(matches!(entry, Entry::InsteadOf(..)), "{entry:?}");
        }
        assert_eq!(places.free(), 2, "kept for those who have spoken");
    }

    /// Ten times as many as there are places came before, all at once, and say nothing.
    #[test]
    fn a_crowd_of_the_silent_displaces_itself_and_nobody_who_has_spoken() {
        let began = Instant::now();
        let mut now = began;
        let mut places = full_at(now);
        (1..=4).for_each(|ticket| places.speak(ticket));
        let mut last = Entry::Full { until: None };
        for who in MOST..11 * MOST {
            if let Some(until) = places.waits_until(now) {
                now = until;
            }
            last = places.enter(who, now);
            let gave_way = matches!(last, Entry::InsteadOf(_, other) if other >= 4);
            assert!(gave_way, "{who}: {last:?}");
        }
        let Entry::InsteadOf(ticket, _) = last else {
            panic!("{last:?}");
        };
        places.speak(ticket);
        assert_eq!(places.spoken.len(), 5);
        assert!(now - began < SILENCE_MAX / 4, "{:?}", now - began);
    }

    #[test]
    fn who_gave_way_and_leaves_or_speaks_frees_no_other_place() {
        let now = Instant::now();
        let mut places = full_at(now);
        let entry = places.enter(99, now + SILENCE_MAX);
        assert!(matches!(entry, Entry::InsteadOf(_, 0)));
        places.speak(1);
        places.leave(1);
        assert_eq!(places.free(), 0);
    }
}
