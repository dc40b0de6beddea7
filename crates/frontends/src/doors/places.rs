//! A listener's places: who may have one, and who gives one back. Time is an argument.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
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

/// Whoever is let in has so long to say something, whatever crowd comes.
const HEARING: Duration = Duration::from_millis(50);

/// Once all places are taken, as many as there are may give way within this time, and no more: which of them go is chance,
/// so that a handshake of some round trips is seldom among them.
const TURNOVER: Duration = Duration::from_millis(300);

/// One place in so many is kept for those who have spoken: who comes takes one only while nobody else gives way.
const KEPT_ONE_IN: usize = 8;

/// Whose place it is.
type Ticket = u64;

/// What becomes of who comes while all places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits outside. So those who are in and say nothing give way soon.
    Waits,
    /// It is told so and turned away. Those who are in have as long as where places are short.
    IsRefused,
}

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

/// Some of those who are there, in the order in which they came.
type Waiting<T> = BTreeMap<Ticket, (Instant, T)>;

/// Who is there, and who of them has yet to speak.
#[derive(Debug)]
struct Places<T> {
    most: usize,
    silence_max: Duration,
    when_full: WhenFull,
    came: Ticket,
    /// Nothing came of them.
    silent: Waiting<T>,
    /// Something did, but not all that there is to say.
    begun: Waiting<T>,
    spoken: HashSet<Ticket>,
    /// When one more may give way while no place is left.
    next: Option<Instant>,
}

impl<T> Places<T> {
    fn new(most: usize, silence_max: Duration, when_full: WhenFull) -> Places<T> {
        Places {
            most,
            silence_max,
            when_full,
            came: 0,
            silent: BTreeMap::new(),
            begun: BTreeMap::new(),
            spoken: HashSet::new(),
            next: None,
        }
    }

    fn free(&self) -> usize {
        let taken = self.silent.len() + self.begun.len() + self.spoken.len();
        self.most.saturating_sub(taken)
    }

    /// How long those of whom nothing came, and those who have begun, have at least.
    fn hearings(&self) -> Option<(Duration, Duration)> {
        let patient = self.silence_max;
        let brief = HEARING.min(patient);
        match (self.free(), self.when_full) {
            (0, WhenFull::Waits) if self.are_few_begun() => Some((brief, patient)),
            (0, WhenFull::Waits) => Some((brief, brief)),
            (free, _) if free <= self.most / KEPT_ONE_IN => Some((patient, patient)),
            _ => None,
        }
    }

    /// Whether those who have begun leave others one of two places that nobody who has spoken has.
    fn are_few_begun(&self) -> bool {
        self.begun.len() <= self.most.saturating_sub(self.spoken.len()) / 2
    }

    fn is_brisk(&self) -> bool {
        self.free() == 0 && self.when_full == WhenFull::Waits
    }

    /// When the first of the silent gives way to whoever comes; `None` while there is room, or nobody is silent.
    fn gives_way_at(&self) -> Option<Instant> {
        let (silent, begun) = self.hearings()?;
        let firsts = [
            first(&self.silent).map(|since| since + silent),
            first(&self.begun).map(|since| since + begun),
        ];
        let due = firsts.into_iter().flatten().min()?;
        match self.next {
            Some(next) if self.is_brisk() => Some(due.max(next)),
            _ => Some(due),
        }
    }

    /// Until when whoever comes had better wait: all places are taken, and somebody gives way soon.
    fn waits_until(&self, now: Instant) -> Option<Instant> {
        let until = self.gives_way_at().filter(|until| *until > now);
        until.filter(|_| self.free() == 0)
    }

    /// `luck` says who gives way, where chance does.
    fn enter(&mut self, who: T, now: Instant, luck: u64) -> Entry<T> {
        let until = self.gives_way_at();
        if until.is_some_and(|until| until <= now) {
            let gone = self.give_way(now, luck);
            let ticket = self.admit(who, now);
            return match gone {
                Some(gone) => Entry::InsteadOf(ticket, gone),
                None => Entry::In(ticket),
            };
        }
        match self.free() {
            0 => Entry::Full { until },
            _ => Entry::In(self.admit(who, now)),
        }
    }

    /// Takes a place from somebody whose time is over: from one of whom nothing came, if there is one.
    fn give_way(&mut self, now: Instant, luck: u64) -> Option<T> {
        let (silent, begun) = self.hearings()?;
        if !self.is_brisk() {
            let is_begun = match (first(&self.silent), first(&self.begun)) {
                (Some(silent), Some(begun)) => begun < silent,
                (silent, _) => silent.is_none(),
            };
            let from = if is_begun {
                &mut self.begun
            } else {
                &mut self.silent
            };
            return from.pop_first().map(|(_, (_, who))| who);
        }
        let pause = TURNOVER / u32::try_from(self.most).unwrap_or(u32::MAX).max(1);
        // What nobody came for in time is made up for, within bounds.
        let from = now.checked_sub(HEARING).unwrap_or(now);
        self.next = Some(self.next.map_or(now, |next| next.max(from)) + pause);
        take_one(&mut self.silent, silent, now, luck)
            .or_else(|| take_one(&mut self.begun, begun, now, luck))
    }

    fn admit(&mut self, who: T, now: Instant) -> Ticket {
        self.came += 1;
        self.silent.insert(self.came, (now, who));
        self.came
    }

    fn begin(&mut self, ticket: Ticket) {
        if let Some(who) = self.silent.remove(&ticket) {
            self.begun.insert(ticket, who);
        }
    }

    /// Who had to give way has no place to keep.
    fn speak(&mut self, ticket: Ticket) {
        let was = self.silent.remove(&ticket);
        if was.or_else(|| self.begun.remove(&ticket)).is_some() {
            self.spoken.insert(ticket);
        }
    }

    fn leave(&mut self, ticket: Ticket) {
        let was = self.silent.remove(&ticket);
        if was.or_else(|| self.begun.remove(&ticket)).is_none() {
            self.spoken.remove(&ticket);
        }
    }
}

/// When the first of them came.
fn first<T>(waiting: &Waiting<T>) -> Option<Instant> {
    waiting.first_key_value().map(|(_, (since, _))| *since)
}

/// One of those who came at least `hearing` ago.
fn take_one<T>(waiting: &mut Waiting<T>, hearing: Duration, now: Instant, luck: u64) -> Option<T> {
    let mut due = waiting.values().map(|(since, _)| *since);
    let count = due
        .position(|since| since + hearing > now)
        .unwrap_or(waiting.len());
    let which = luck.checked_rem(count as u64)?;
    let ticket = *waiting.keys().nth(which as usize)?;
    waiting.remove(&ticket).map(|(_, who)| who)
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
    /// [`SILENCE_MAX`] outside tests. Where there are none, and others wait for one, it gives way sooner.
    pub fn new(most: usize, silence_max: Duration, when_full: WhenFull) -> Arc<Lobby> {
        Arc::new(Lobby(Mutex::new(Places::new(most, silence_max, when_full))))
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
        // Its keys are the system's chance.
        let luck = RandomState::new().hash_one(());
        let entry = self.0.lock().enter(Arc::clone(socket), now, luck);
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
            has_begun: AtomicBool::new(false),
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
    has_begun: AtomicBool,
    has_spoken: AtomicBool,
}

impl Place {
    /// Something came of its owner: it has longer now to say the rest.
    pub fn begin(&self) {
        if !self.has_begun.load(Ordering::Relaxed) {
            self.has_begun.store(true, Ordering::Relaxed);
            self.lobby.0.lock().begin(self.ticket);
        }
    }

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
        full(now, WhenFull::Waits)
    }

    fn full(now: Instant, when_full: WhenFull) -> Places<usize> {
        let mut places = Places::new(MOST, SILENCE_MAX, when_full);
        for who in 0..MOST {
            assert_eq!(places.enter(who, now, 0), Entry::In(who as Ticket + 1));
        }
        places
    }

    /// Chance that is the same at each run.
    fn chance() -> impl FnMut() -> u64 {
        let mut luck = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            luck ^= luck << 13;
            luck ^= luck >> 7;
            luck ^= luck << 17;
            luck
        }
    }

    #[test]
    fn nobody_gives_way_before_it_is_heard_and_all_places_change_hands_in_a_turnover_at_the_soonest()
     {
        let now = Instant::now();
        let mut places = full_at(now);
        let due = now + HEARING;
        let sooner = due - Duration::from_millis(1);
        let full = Entry::Full { until: Some(due) };
        assert_eq!(places.enter(99, sooner, 0), full, "all are young");
        assert_eq!(places.waits_until(sooner), Some(due));
        assert_eq!(places.waits_until(due), None);
        let mut at = due;
        for who in 0..MOST {
            at = places.waits_until(at).unwrap_or(at);
            let entry = places.enter(100 + who, at, 0);
            assert!(matches!(entry, Entry::InsteadOf(..)), "{entry:?}");
        }
        assert_eq!(places.free(), 0, "as many as there may be");
        assert!(
            at - due >= TURNOVER - 2 * TURNOVER / MOST as u32,
            "{:?}",
            at - due
        );
    }

    /// The one that needs long has said something; the others say nothing, and there are always more of them.
    #[test]
    fn a_slow_handshake_ends_in_peace_among_those_who_say_nothing() {
        let began = Instant::now();
        let mut places = full_at(began);
        places.begin(1);
        let (mut now, mut luck) = (began, chance());
        let mut who = MOST;
        while now < began + SILENCE_MAX - HEARING {
            now = places.waits_until(now).unwrap_or(now + HEARING / 10);
            let entry = places.enter(who, now, luck());
            assert!(
                !matches!(entry, Entry::InsteadOf(_, 0)),
                "{:?}",
                now - began
            );
            who += 1;
        }
        places.speak(1);
        assert!(places.spoken.contains(&1));
    }

    /// All of them say a byte at once, and there are always more of them.
    #[test]
    fn a_slow_handshake_has_a_chance_among_those_who_begin_and_never_end() {
        const NEEDS: Duration = Duration::from_millis(150);
        let (mut luck, mut came_through) = (chance(), 0);
        for _ in 0..100 {
            let began = Instant::now();
            let mut places = full_at(began);
            (1..=MOST as Ticket).for_each(|ticket| places.begin(ticket));
            let mut now = began;
            let mut is_in = true;
            while now < began + NEEDS {
                now = places.waits_until(now).unwrap_or(now + HEARING / 10);
                let entry = places.enter(99, now, luck());
                is_in &= !matches!(entry, Entry::InsteadOf(_, 0));
                if let Entry::InsteadOf(ticket, _) = entry {
                    places.begin(ticket);
                }
            }
            came_through += usize::from(is_in);
        }
        assert!(came_through > 40, "{came_through} of 100");
    }

    #[test]
    fn who_has_begun_and_does_not_end_gives_way_as_the_silent_do_in_time() {
        let now = Instant::now();
        let mut places = full_at(now);
        (1..=10).for_each(|ticket| places.speak(ticket));
        (11..=MOST as Ticket).for_each(|ticket| places.begin(ticket));
        let due = now + HEARING;
        let entry = places.enter(99, due, 5);
        assert!(
            matches!(entry, Entry::InsteadOf(_, 15)),
            "more than half: {entry:?}"
        );
        (17..=18).for_each(|ticket| places.speak(ticket));
        let Entry::Full { until: Some(until) } = places.enter(99, now, 0) else {
            panic!("all have begun or spoken");
        };
        assert_eq!(
            until,
            due + TURNOVER / MOST as u32,
            "5 of 5: more than half"
        );
        (12..=14).for_each(|ticket| places.leave(ticket));
        for who in 0..3 {
            places.enter(who, due, 0);
        }
        assert_eq!(places.begun.len(), 2);
        let late = now + SILENCE_MAX;
        (19..=21).for_each(|ticket| places.speak(ticket));
        assert_eq!(places.begun.len(), 2, "of two");
        assert!(matches!(places.enter(99, late, 0), Entry::InsteadOf(..)));
    }

    #[test]
    fn where_who_comes_is_refused_nobody_gives_way_before_it_was_silent_for_long() {
        let now = Instant::now();
        let mut places = full(now, WhenFull::IsRefused);
        let due = now + SILENCE_MAX;
        let sooner = due - Duration::from_millis(1);
        assert_eq!(
            places.enter(99, sooner, 0),
            Entry::Full { until: Some(due) }
        );
        for who in 0..MOST {
            let entry = places.enter(100 + who, due, 7);
            let is_oldest = matches!(entry, Entry::InsteadOf(_, oldest) if oldest == who);
            assert!(is_oldest, "{entry:?}");
        }
    }

    #[test]
    fn who_has_spoken_keeps_its_place() {
        let now = Instant::now();
        let mut places = full_at(now);
        (1..=MOST as Ticket).for_each(|ticket| places.speak(ticket));
        let late = now + 100 * SILENCE_MAX;
        assert_eq!(places.enter(99, late, 0), Entry::Full { until: None });
        assert_eq!(places.waits_until(late), None, "nobody waits for nothing");
        places.leave(3);
        assert!(matches!(places.enter(99, late, 0), Entry::In(_)));
    }

    #[test]
    fn nobody_gives_way_while_places_are_plenty_and_some_are_kept() {
        let now = Instant::now();
        let mut places = Places::new(MOST, SILENCE_MAX, WhenFull::Waits);
        for who in 0..MOST - 2 {
            let at = now + (who as u32) * SILENCE_MAX;
            assert!(matches!(places.enter(who, at, 0), Entry::In(_)), "{who}");
        }
        places.begin(2);
        let late = now + 100 * SILENCE_MAX;
        for who in 0..100 {
            let entry = places.enter(who, late + who as u32 * SILENCE_MAX, 0);
            assert!(matches!(entry, Entry::InsteadOf(..)), "{entry:?}");
        }
        assert_eq!(places.free(), 2, "kept for those who have spoken");
        assert!(
            places.begun.is_empty(),
            "the oldest go, whatever they began"
        );
    }

    /// Ten times as many as there are places came before, all at once, and say nothing.
    #[test]
    fn a_crowd_of_the_silent_displaces_itself_and_nobody_who_has_spoken() {
        let began = Instant::now();
        let (mut now, mut luck) = (began, chance());
        let mut places = full_at(now);
        (1..=4).for_each(|ticket| places.speak(ticket));
        let mut last = Entry::Full { until: None };
        for who in MOST..11 * MOST {
            if let Some(until) = places.waits_until(now) {
                now = until;
            }
            last = places.enter(who, now, luck());
            let gave_way = matches!(last, Entry::InsteadOf(_, other) if other >= 4);
            assert!(gave_way, "{who}: {last:?}");
        }
        let Entry::InsteadOf(ticket, _) = last else {
            panic!("{last:?}");
        };
        places.speak(ticket);
        assert_eq!(places.spoken.len(), 5);
        assert!(now - began < SILENCE_MAX * 7 / 10, "{:?}", now - began);
    }

    #[test]
    fn who_gave_way_and_leaves_or_speaks_frees_no_other_place() {
        let now = Instant::now();
        let mut places = full_at(now);
        let entry = places.enter(99, now + SILENCE_MAX, 0);
        assert!(matches!(entry, Entry::InsteadOf(_, 0)));
        places.speak(1);
        places.leave(1);
        assert_eq!(places.free(), 0);
    }
}
