//! The limit of a listener's connections: which peer gets a permit, and which one loses it to another.
//!
//! Every function that needs the time takes it as an argument.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};

/// How long a peer may stay silent before it loses its permit to a newcomer while permits are scarce. If none is
/// left and newcomers wait, it loses it much sooner.
///
/// If a protocol wants proof from a peer, a token or a password, the peer counts as silent until it has given that
/// proof.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How long every admitted peer has at least to say something, however many newcomers come.
const GRACE_MIN: Duration = Duration::from_millis(50);

/// The time within which as many peers as there are permits may lose theirs, and no more, once all permits are taken.
/// Chance chooses which of them, so that it seldom hits a handshake of some round trips.
const TURNOVER_TIME: Duration = Duration::from_millis(300);

/// One permit in this many is reserved for peers that have spoken. A newcomer gets one of these only if it displaces
/// nobody.
const RESERVED_ONE_IN: usize = 8;

/// The number of a permit.
type PermitId = u64;

/// What happens to a newcomer while all permits are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits in the kernel's queue. So peers that are admitted and say nothing are displaced soon.
    Waits,
    /// It is turned away with a message. Admitted peers have as long as they have while permits are scarce.
    IsRefused,
}

/// The answer to a newcomer.
#[derive(Debug, PartialEq, Eq)]
enum AdmitOutcome<T> {
    /// It gets a permit.
    Admitted(PermitId),
    /// It gets a permit, because that other peer loses its own.
    Replacing(PermitId, T),
    /// It gets none. A peer may be displaced at `until`.
    Full { until: Option<Instant> },
}

/// Some of the admitted peers, in the order in which they came.
type ByArrival<T> = BTreeMap<PermitId, (Instant, T)>;

/// The admitted peers, and how far each has spoken.
#[derive(Debug)]
struct LimiterState<T> {
    capacity: usize,
    silence_max: Duration,
    when_full: WhenFull,
    entered: PermitId,
    /// Peers that have sent nothing.
    silent: ByArrival<T>,
    /// Peers that have sent something, but not yet all that the protocol wants.
    begun: ByArrival<T>,
    spoken: HashSet<PermitId>,
    /// When one more peer may be displaced while no permit is left.
    next: Option<Instant>,
}

impl<T> LimiterState<T> {
    fn new(capacity: usize, silence_max: Duration, when_full: WhenFull) -> LimiterState<T> {
        LimiterState {
            capacity,
            silence_max,
            when_full,
            entered: 0,
            silent: BTreeMap::new(),
            begun: BTreeMap::new(),
            spoken: HashSet::new(),
            next: None,
        }
    }

    fn free(&self) -> usize {
        let taken = self.silent.len() + self.begun.len() + self.spoken.len();
        self.capacity.saturating_sub(taken)
    }

    /// Returns how long a silent peer, and one that has begun, may keep its permit at least. `None`: no peer is
    /// displaced.
    fn grace_periods(&self) -> Option<(Duration, Duration)> {
        let patient = self.silence_max;
        let brief = GRACE_MIN.min(patient);
        match (self.free(), self.when_full) {
            (0, WhenFull::Waits) if self.are_few_begun() => Some((brief, patient)),
            (0, WhenFull::Waits) => Some((brief, brief)),
            (free, _) if free <= self.capacity / RESERVED_ONE_IN => Some((patient, patient)),
            _ => None,
        }
    }

    /// Returns whether peers that have begun hold at most half of the permits that no spoken peer holds.
    fn are_few_begun(&self) -> bool {
        self.begun.len() <= self.capacity.saturating_sub(self.spoken.len()) / 2
    }

    fn is_full_with_waiters(&self) -> bool {
        self.free() == 0 && self.when_full == WhenFull::Waits
    }

    /// Returns when a newcomer may displace the first peer; `None` while there is room, or if all peers have spoken.
    fn next_displacement_at(&self) -> Option<Instant> {
        let (silent, begun) = self.grace_periods()?;
        let firsts = [
            first_arrival(&self.silent).map(|since| since + silent),
            first_arrival(&self.begun).map(|since| since + begun),
        ];
        let due = firsts.into_iter().flatten().min()?;
        match self.next {
            Some(next) if self.is_full_with_waiters() => Some(due.max(next)),
            _ => Some(due),
        }
    }

    /// Returns until when a newcomer had better wait. That is so if all permits are taken and a peer may be displaced
    /// later.
    fn waits_until(&self, now: Instant) -> Option<Instant> {
        let until = self.next_displacement_at().filter(|until| *until > now);
        until.filter(|_| self.free() == 0)
    }

    /// Admits a newcomer, or says why not. `random` chooses the peer to displace where chance decides.
    fn enter(&mut self, peer: T, now: Instant, random: u64) -> AdmitOutcome<T> {
        let until = self.next_displacement_at();
        if until.is_some_and(|until| until <= now) {
            let displaced = self.displace_one(now, random);
            let id = self.insert_silent(peer, now);
            return match displaced {
                Some(displaced) => AdmitOutcome::Replacing(id, displaced),
                None => AdmitOutcome::Admitted(id),
            };
        }
        match self.free() {
            0 => AdmitOutcome::Full { until },
            _ => AdmitOutcome::Admitted(self.insert_silent(peer, now)),
        }
    }

    /// Displaces a peer whose time is over: one that has sent nothing, if there is one.
    fn displace_one(&mut self, now: Instant, random: u64) -> Option<T> {
        let (silent, begun) = self.grace_periods()?;
        if !self.is_full_with_waiters() {
            let is_begun = match (first_arrival(&self.silent), first_arrival(&self.begun)) {
                (Some(silent), Some(begun)) => begun < silent,
                (silent, _) => silent.is_none(),
            };
            let from = if is_begun {
                &mut self.begun
            } else {
                &mut self.silent
            };
            return from.pop_first().map(|(_, (_, peer))| peer);
        }
        let pause = TURNOVER_TIME / u32::try_from(self.capacity).unwrap_or(u32::MAX).max(1);
        // Displacements that no newcomer needed in time are made up for, within bounds.
        let from = now.checked_sub(GRACE_MIN).unwrap_or(now);
        self.next = Some(self.next.map_or(now, |next| next.max(from)) + pause);
        take_random_expired(&mut self.silent, silent, now, random)
            .or_else(|| take_random_expired(&mut self.begun, begun, now, random))
    }

    fn insert_silent(&mut self, peer: T, now: Instant) -> PermitId {
        self.entered += 1;
        self.silent.insert(self.entered, (now, peer));
        self.entered
    }

    fn mark_begun(&mut self, id: PermitId) {
        if let Some(peer) = self.silent.remove(&id) {
            self.begun.insert(id, peer);
        }
    }

    /// Marks a peer as spoken. A peer that was displaced before has no permit to keep.
    fn mark_spoken(&mut self, id: PermitId) {
        let was = self.silent.remove(&id);
        if was.or_else(|| self.begun.remove(&id)).is_some() {
            self.spoken.insert(id);
        }
    }

    fn leave(&mut self, id: PermitId) {
        let was = self.silent.remove(&id);
        if was.or_else(|| self.begun.remove(&id)).is_none() {
            self.spoken.remove(&id);
        }
    }
}

/// Returns when the first of these peers came.
fn first_arrival<T>(peers: &ByArrival<T>) -> Option<Instant> {
    peers.first_key_value().map(|(_, (since, _))| *since)
}

/// Removes one of the peers that came at least `grace` ago.
fn take_random_expired<T>(
    peers: &mut ByArrival<T>,
    grace: Duration,
    now: Instant,
    random: u64,
) -> Option<T> {
    let mut due = peers.values().map(|(since, _)| *since);
    let count = due
        .position(|since| since + grace > now)
        .unwrap_or(peers.len());
    let index = random.checked_rem(count as u64)?;
    let id = *peers.keys().nth(index as usize)?;
    peers.remove(&id).map(|(_, peer)| peer)
}

/// All permits were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimitReached {
    /// When a peer may be displaced.
    pub until: Option<Instant>,
}

/// The permits of a listener, for the threads that share it.
#[derive(Debug)]
pub struct ConnectionLimiter(Mutex<LimiterState<Arc<OwnedFd>>>);

impl ConnectionLimiter {
    /// Makes a limiter of `most` permits, none of them taken.
    ///
    /// A newcomer displaces a peer that was silent for longer than `silence_max` while permits are scarce. It is
    /// [`SILENCE_MAX`] outside tests. If no permit is left and others wait for one, a silent peer is displaced sooner.
    pub fn new(
        capacity: usize,
        silence_max: Duration,
        when_full: WhenFull,
    ) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter(Mutex::new(LimiterState::new(
            capacity,
            silence_max,
            when_full,
        ))))
    }

    /// Gives a permit to the peer behind `socket`. The answer also holds [`PeerDisplaced`] if another peer lost its
    /// permit for it. That peer's socket is shut down, which its owner sees as the end of the stream.
    ///
    /// # Errors
    ///
    /// All permits are taken, and no peer can be displaced yet.
    pub fn enter(
        self: &Arc<ConnectionLimiter>,
        socket: &Arc<OwnedFd>,
        now: Instant,
    ) -> Result<(ConnectionPermit, Option<PeerDisplaced>), ConnectionLimitReached> {
        // Its keys come from the system's random source.
        let random = RandomState::new().hash_one(());
        let entry = self.0.lock().enter(Arc::clone(socket), now, random);
        let (id, displaced) = match entry {
            AdmitOutcome::Admitted(id) => (id, None),
            AdmitOutcome::Replacing(id, other) => {
                // A socket whose peer has gone in the meantime needs no shutdown.
                let _ = shutdown(&other, Shutdown::Both);
                (id, Some(PeerDisplaced))
            }
            AdmitOutcome::Full { until } => return Err(ConnectionLimitReached { until }),
        };
        let place = ConnectionPermit {
            limiter: Arc::clone(self),
            id,
            has_begun: AtomicBool::new(false),
            has_spoken: AtomicBool::new(false),
        };
        Ok((place, displaced))
    }

    /// Returns whether a newcomer had better wait in the kernel's queue, because a peer may be displaced soon.
    pub(crate) fn is_full_for_now(&self, now: Instant) -> bool {
        self.0.lock().waits_until(now).is_some()
    }
}

/// A peer that had not spoken lost its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerDisplaced;

/// A permit for one connection. Dropping it frees it.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    id: PermitId,
    has_begun: AtomicBool,
    has_spoken: AtomicBool,
}

impl ConnectionPermit {
    /// Marks the peer as having sent something. It has longer now to send the rest.
    pub fn mark_begun(&self) {
        if !self.has_begun.load(Ordering::Relaxed) {
            self.has_begun.store(true, Ordering::Relaxed);
            self.limiter.0.lock().mark_begun(self.id);
        }
    }

    /// Marks the peer as having spoken, or as having proven who it is. It is never displaced from now on.
    pub fn mark_spoken(&self) {
        if !self.has_spoken.load(Ordering::Relaxed) {
            self.has_spoken.store(true, Ordering::Relaxed);
            self.limiter.0.lock().mark_spoken(self.id);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.0.lock().leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 16;

    fn full_at(now: Instant) -> LimiterState<usize> {
        full(now, WhenFull::Waits)
    }

    fn full(now: Instant, when_full: WhenFull) -> LimiterState<usize> {
        let mut limiter = LimiterState::new(CAPACITY, SILENCE_MAX, when_full);
        for peer in 0..CAPACITY {
            assert_eq!(
                limiter.enter(peer, now, 0),
                AdmitOutcome::Admitted(peer as PermitId + 1)
            );
        }
        limiter
    }

    /// Random numbers that are the same at each run.
    fn repeatable_random() -> impl FnMut() -> u64 {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        }
    }

    #[test]
    fn no_peer_is_displaced_in_its_grace_and_all_permits_change_hands_in_the_turnover_time_at_the_soonest()
     {
        let now = Instant::now();
        let mut limiter = full_at(now);
        let due = now + GRACE_MIN;
        let sooner = due - Duration::from_millis(1);
        let full = AdmitOutcome::Full { until: Some(due) };
        assert_eq!(limiter.enter(99, sooner, 0), full, "all are young");
        assert_eq!(limiter.waits_until(sooner), Some(due));
        assert_eq!(limiter.waits_until(due), None);
        let mut at = due;
        for peer in 0..CAPACITY {
            at = limiter.waits_until(at).unwrap_or(at);
            let entry = limiter.enter(100 + peer, at, 0);
            assert!(matches!(entry, AdmitOutcome::Replacing(..)), "{entry:?}");
        }
        assert_eq!(limiter.free(), 0, "as many as there may be");
        assert!(
            at - due >= TURNOVER_TIME - 2 * TURNOVER_TIME / CAPACITY as u32,
            "{:?}",
            at - due
        );
    }

    /// The slow peer has sent something. The others send nothing, and newcomers never cease to come.
    #[test]
    fn a_slow_handshake_is_not_displaced_among_silent_peers() {
        let began = Instant::now();
        let mut limiter = full_at(began);
        limiter.mark_begun(1);
        let (mut now, mut random) = (began, repeatable_random());
        let mut peer = CAPACITY;
        while now < began + SILENCE_MAX - GRACE_MIN {
            now = limiter.waits_until(now).unwrap_or(now + GRACE_MIN / 10);
            let entry = limiter.enter(peer, now, random());
            assert!(
                !matches!(entry, AdmitOutcome::Replacing(_, 0)),
                "{:?}",
                now - began
            );
            peer += 1;
        }
        limiter.mark_spoken(1);
        assert!(limiter.spoken.contains(&1));
    }

    /// All peers send a byte at once, and newcomers never cease to come.
    #[test]
    fn a_slow_handshake_has_a_chance_among_peers_that_begin_and_never_end() {
        const NEEDS: Duration = Duration::from_millis(150);
        let (mut random, mut came_through) = (repeatable_random(), 0);
        for _ in 0..100 {
            let began = Instant::now();
            let mut limiter = full_at(began);
            (1..=CAPACITY as PermitId).for_each(|id| limiter.mark_begun(id));
            let mut now = began;
            let mut is_in = true;
            while now < began + NEEDS {
                now = limiter.waits_until(now).unwrap_or(now + GRACE_MIN / 10);
                let entry = limiter.enter(99, now, random());
                is_in &= !matches!(entry, AdmitOutcome::Replacing(_, 0));
                if let AdmitOutcome::Replacing(id, _) = entry {
                    limiter.mark_begun(id);
                }
            }
            came_through += usize::from(is_in);
        }
        assert!(came_through > 40, "{came_through} of 100");
    }

    #[test]
    fn a_peer_that_begins_and_never_ends_is_displaced_in_time_like_a_silent_one() {
        let now = Instant::now();
        let mut limiter = full_at(now);
        (1..=10).for_each(|id| limiter.mark_spoken(id));
        (11..=CAPACITY as PermitId).for_each(|id| limiter.mark_begun(id));
        let due = now + GRACE_MIN;
        let entry = limiter.enter(99, due, 5);
        assert!(
            matches!(entry, AdmitOutcome::Replacing(_, 15)),
            "more than half: {entry:?}"
        );
        (17..=18).for_each(|id| limiter.mark_spoken(id));
        let AdmitOutcome::Full { until: Some(until) } = limiter.enter(99, now, 0) else {
            panic!("all have begun or spoken");
        };
        assert_eq!(
            until,
            due + TURNOVER_TIME / CAPACITY as u32,
            "5 of 5: more than half"
        );
        (12..=14).for_each(|id| limiter.leave(id));
        for peer in 0..3 {
            limiter.enter(peer, due, 0);
        }
        assert_eq!(limiter.begun.len(), 2);
        let late = now + SILENCE_MAX;
        (19..=21).for_each(|id| limiter.mark_spoken(id));
        assert_eq!(limiter.begun.len(), 2, "of two");
        assert!(matches!(
            limiter.enter(99, late, 0),
            AdmitOutcome::Replacing(..)
        ));
    }

    #[test]
    fn if_newcomers_are_refused_no_peer_is_displaced_before_it_was_silent_for_long() {
        let now = Instant::now();
        let mut limiter = full(now, WhenFull::IsRefused);
        let due = now + SILENCE_MAX;
        let sooner = due - Duration::from_millis(1);
        assert_eq!(
            limiter.enter(99, sooner, 0),
            AdmitOutcome::Full { until: Some(due) }
        );
        for peer in 0..CAPACITY {
            let entry = limiter.enter(100 + peer, due, 7);
            let is_oldest = matches!(entry, AdmitOutcome::Replacing(_, oldest) if oldest == peer);
            assert!(is_oldest, "{entry:?}");
        }
    }

    #[test]
    fn a_peer_that_has_spoken_keeps_its_permit() {
        let now = Instant::now();
        let mut limiter = full_at(now);
        (1..=CAPACITY as PermitId).for_each(|id| limiter.mark_spoken(id));
        let late = now + 100 * SILENCE_MAX;
        assert_eq!(
            limiter.enter(99, late, 0),
            AdmitOutcome::Full { until: None }
        );
        assert_eq!(limiter.waits_until(late), None, "no newcomer waits in vain");
        limiter.leave(3);
        assert!(matches!(
            limiter.enter(99, late, 0),
            AdmitOutcome::Admitted(_)
        ));
    }

    #[test]
    fn nobody_gives_way_while_places_are_plenty_and_some_are_kept() {
        let now = Instant::now();
        let mut limiter = LimiterState::new(CAPACITY, SILENCE_MAX, WhenFull::Waits);
        for peer in 0..CAPACITY - 2 {
            let at = now + (peer as u32) * SILENCE_MAX;
            assert!(
                matches!(limiter.enter(peer, at, 0), AdmitOutcome::Admitted(_)),
                "{peer}"
            );
        }
        limiter.mark_begun(2);
        let late = now + 100 * SILENCE_MAX;
        for peer in 0..100 {
            let entry = limiter.enter(peer, late + peer as u32 * SILENCE_MAX, 0);
            assert!(matches!(entry, AdmitOutcome::Replacing(..)), "{entry:?}");
        }
        assert_eq!(limiter.free(), 2, "reserved for peers that have spoken");
        assert!(
            limiter.begun.is_empty(),
            "the oldest go, whatever they began"
        );
    }

    /// Ten times as many peers as there are permits come at once, before, and say nothing.
    #[test]
    fn a_crowd_of_silent_peers_displaces_itself_and_no_peer_that_has_spoken() {
        let began = Instant::now();
        let (mut now, mut random) = (began, repeatable_random());
        let mut limiter = full_at(now);
        (1..=4).for_each(|id| limiter.mark_spoken(id));
        let mut last = AdmitOutcome::Full { until: None };
        for peer in CAPACITY..11 * CAPACITY {
            if let Some(until) = limiter.waits_until(now) {
                now = until;
            }
            last = limiter.enter(peer, now, random());
            let displaced = matches!(last, AdmitOutcome::Replacing(_, other) if other >= 4);
            assert!(displaced, "{peer}: {last:?}");
        }
        let AdmitOutcome::Replacing(id, _) = last else {
            panic!("{last:?}");
        };
        limiter.mark_spoken(id);
        assert_eq!(limiter.spoken.len(), 5);
        assert!(now - began < SILENCE_MAX * 7 / 10, "{:?}", now - began);
    }

    #[test]
    fn a_displaced_peer_that_leaves_or_speaks_frees_no_other_permit() {
        let now = Instant::now();
        let mut limiter = full_at(now);
        let entry = limiter.enter(99, now + SILENCE_MAX, 0);
        assert!(matches!(entry, AdmitOutcome::Replacing(_, 0)));
        limiter.mark_spoken(1);
        limiter.leave(1);
        assert_eq!(limiter.free(), 0);
    }
}
