//! One turn of the loop: read the host, decide, set the arena's limit, give back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_frontends::tenancy::Clock;
use sublet_policy::headroom::{Arena, Bound, Decision, POLL_MAX, Settings, Signal, State, decide};
use sublet_store::{Release, Released, Worker};
use sublet_types::{Bytes, HostFigures, ReleaseMode};

use super::by_hand::ByHand;
use super::figures::ReadHost;
use super::holds::{Holds, TooManyHolds};
use super::order::Order;
use crate::observe::events::{Amount, Cause, Detail, EventId, Events, Why};

/// Ordered release copies what it keeps: after each such piece the host is looked at again, so that a
/// release turns fast as soon as it must.
const ORDERED_PIECE: Bytes = Bytes::mib(64);

/// `held` and the host's figures are read one after the other. If `held` moved by more than this between, it was not
/// one instant, and they are read once more.
const INSTANT_SLACK: Bytes = Bytes::mib(4);

/// Trouble in reading the host is logged once in this time.
const TROUBLE_EVERY: Duration = Duration::from_secs(60);

/// What the loop saw and did last, for status and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadroomFigures {
    /// The host.
    pub host: HostFigures,
    /// What the arena held then.
    pub held: Bytes,
    /// What was decided; nothing before the first turn.
    pub decision: Option<Decision>,
    /// Releases since the start.
    pub releases: ReleaseCounts,
    /// The last one.
    pub last_release: Option<Took>,
}

/// Releases since the start, by whoever's wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseCounts {
    /// In order, each piece counted.
    pub ordered: u64,
    /// Fast.
    pub fast: u64,
    /// What they gave back, lost and kept.
    pub sum: Released,
    /// Time that they took.
    pub time: Duration,
    /// Time that the longest took.
    pub longest: Duration,
}

/// A release, to its last madvise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// What it did.
    pub released: Released,
    /// How blocks were chosen at the end: a release that turns urgent turns fast.
    pub mode: ReleaseMode,
    /// How long it took.
    pub time: Duration,
}

/// What a turn did, and when the next is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What it gave back.
    pub took: Option<Took>,
    /// When the next is due.
    pub again_in: Duration,
}

/// Lets the arena follow a host.
pub struct Follower<H> {
    host: H,
    worker: Worker,
    clock: Clock,
    settings: Settings,
    state: State,
    holds: Holds,
    figures: Arc<Mutex<HeadroomFigures>>,
    trouble_at: Option<Duration>,
    /// What kept the arena from being larger at the last turn.
    bound: Option<Bound>,
    reports: Reports,
}

/// Where it tells what it does.
#[derive(Clone, Default)]
pub(super) struct Reports {
    pub(super) events: Events,
    pub(super) by_hand: Arc<ByHand>,
}

/// How somebody wants a release done.
#[derive(Clone, Copy)]
struct Wish {
    mode: ReleaseMode,
    order: Order,
    cap: Bytes,
}

impl<H: ReadHost> Follower<H> {
    /// A follower that has not looked yet.
    pub fn new(host: H, worker: Worker, clock: Clock, settings: Settings) -> Follower<H> {
        Follower {
            host,
            worker,
            clock,
            settings,
            state: State::default(),
            holds: Holds::default(),
            figures: Arc::default(),
            trouble_at: None,
            bound: None,
            reports: Reports::default(),
        }
    }

    /// Has it tell what it does.
    pub(super) fn reporting(self, reports: Reports) -> Follower<H> {
        Follower { reports, ..self }
    }

    /// Where it shows what it saw and did.
    pub fn figures(&self) -> Arc<Mutex<HeadroomFigures>> {
        Arc::clone(&self.figures)
    }

    /// One turn at `at`: time since the start, which never goes back.
    pub fn turn(&mut self, at: Duration) -> Turn {
        self.turn_with(at, None)
    }

    /// Gives back by hand, and keeps it so for the hold. `at` tells the time since the start.
    pub fn order(&mut self, order: Order, at: impl Fn() -> Duration) -> Result<Took, TooManyHolds> {
        let began = Instant::now();
        let held = self.worker.store().held();
        let amount = self.at_most(order).min(held);
        let fast = amount >= self.settings.fast_from;
        let derived = if fast {
            ReleaseMode::Fast
        } else {
            ReleaseMode::Ordered
        };
        let wish = Wish {
            mode: order.mode.unwrap_or(derived),
            order,
            cap: held - amount,
        };
        let now = at();
        self.holds.add(wish.cap, now, now + order.hold)?;
        self.reports.by_hand.begin(order.by);
        let mut took = Took {
            released: Released::default(),
            mode: wish.mode,
            time: Duration::ZERO,
        };
        while let Some(piece) = self.turn_with(at(), Some(wish)).took {
            took.released += piece.released;
            took.mode = piece.mode;
            if piece.released.bytes == Bytes::ZERO || took.released.bytes >= amount {
                break;
            }
        }
        took.time = began.elapsed();
        Ok(took)
    }

    /// What a tenant holds is the most that it can give.
    fn at_most(&self, order: Order) -> Bytes {
        let Some(id) = order.tenant else {
            return order.amount;
        };
        let all = self.worker.store().all_held();
        let held = all.iter().find(|(tenant, _)| *tenant == id);
        held.map_or(Bytes::ZERO, |(_, held)| (*held).min(order.amount))
    }

    fn turn_with(&mut self, at: Duration, wish: Option<Wish>) -> Turn {
        let Some((held, host)) = self.look(at) else {
            return Turn {
                took: None,
                again_in: POLL_MAX,
            };
        };
        let caps = [self.holds.cap(at), wish.map(|wish| wish.cap)];
        let arena = Arena {
            held,
            cap: caps.into_iter().flatten().min(),
        };
        let (state, decision) = decide(&self.state, &self.settings, &host, arena);
        self.state = state;
        self.worker.store().set_limit(decision.arena_max);
        let took = self.release(&decision, held, wish);
        let counted = took.filter(|took| wish.is_some() || took.released.bytes > Bytes::ZERO);
        self.show(host, held, decision, counted);
        self.report(&decision, took.filter(|_| wish.is_none()));
        let left = held - decision.arena_max - given_back(took);
        let gives = given_back(took) > Bytes::ZERO;
        Turn {
            took,
            again_in: if gives && left > Bytes::ZERO {
                Duration::ZERO
            } else {
                decision.poll_again_in
            },
        }
    }

    fn look(&mut self, at: Duration) -> Option<(Bytes, HostFigures)> {
        let (held, figures) = self.look_once(at)?;
        let held_after = self.worker.store().held();
        if held_after.0.abs_diff(held.0) <= INSTANT_SLACK.0 {
            return Some((held, figures));
        }
        self.look_once(at)
    }

    fn look_once(&mut self, at: Duration) -> Option<(Bytes, HostFigures)> {
        let held = self.worker.store().held();
        match self.host.read(at) {
            Ok(figures) => Some((held, figures)),
            Err(error) => {
                let is_news = self
                    .trouble_at
                    .is_none_or(|last| at.saturating_sub(last) >= TROUBLE_EVERY);
                if is_news {
                    self.trouble_at = Some(at);
                    let blind = Cause::new(EventId::ArenaBlind, Why::Unreadable);
                    self.reports.events.post(blind.saying(error));
                }
                None
            }
        }
    }

    fn release(&mut self, decision: &Decision, held: Bytes, wish: Option<Wish>) -> Option<Took> {
        let needed = decision.release?;
        let mode = match wish {
            Some(wish) if decision.arena_max >= wish.cap => wish.mode,
            _ => needed,
        };
        let deficit = held - decision.arena_max;
        let amount = match mode {
            ReleaseMode::Ordered => deficit.min(ORDERED_PIECE),
            _ => deficit,
        };
        let release = Release {
            amount,
            mode,
            tenant: wish.and_then(|wish| wish.order.tenant),
        };
        let began = Instant::now();
        let piece = || self.worker.release(release, self.clock.now());
        let released = match wish {
            Some(wish) => {
                let by_hand = &self.reports.by_hand;
                by_hand.release(wish.order.by, &self.worker, piece)
            }
            None => piece(),
        };
        Some(Took {
            released,
            mode,
            time: began.elapsed(),
        })
    }

    /// Tells when the arena gives way, and when it begins to be braked. What is given by hand is told by whoever asked for it.
    fn report(&mut self, decision: &Decision, took: Option<Took>) {
        let events = &self.reports.events;
        if let Some(took) = took.filter(|took| took.released.bytes > Bytes::ZERO) {
            events.post(took.event(why(decision.bound)));
        }
        let before = self.bound.replace(decision.bound);
        match decision.bound {
            Bound::Braked(signal) if before != Some(decision.bound) => {
                events.post(Cause::new(EventId::ArenaBraked, brake(signal)));
            }
            _ => {}
        }
    }

    fn show(&self, host: HostFigures, held: Bytes, decision: Decision, took: Option<Took>) {
        let mut figures = self.figures.lock();
        figures.host = host;
        figures.held = held - given_back(took);
        figures.decision = Some(decision);
        if let Some(took) = took {
            figures.releases.count(&took);
            figures.last_release = Some(took);
        }
    }
}

impl Took {
    /// What is told of it.
    pub fn event(&self, why: Why) -> Cause {
        let id = match self.mode {
            ReleaseMode::Ordered => EventId::ReleaseOrdered,
            _ => EventId::ReleaseFast,
        };
        let cause = Cause::new(id, why).of(Amount::Bytes(self.released.bytes));
        cause.with(Detail::Released(self.released))
    }
}

impl ReleaseCounts {
    fn count(&mut self, took: &Took) {
        if took.mode == ReleaseMode::Ordered {
            self.ordered += 1;
        } else {
            self.fast += 1;
        }
        self.sum += took.released;
        self.time += took.time;
        self.longest = self.longest.max(took.time);
    }
}

/// Why an arena that gives way does so.
fn why(bound: Bound) -> Why {
    match bound {
        Bound::Host => Why::Host,
        Bound::Cgroup => Why::Cgroup,
        Bound::Ceiling => Why::Ceiling,
        Bound::Hold => Why::Held,
        Bound::Floor => Why::Floor,
        Bound::Growing | Bound::Braked(_) => Why::Shortage,
    }
}

fn brake(signal: Signal) -> Why {
    match signal {
        Signal::Refaults => Why::Refaults,
        Signal::Pressure => Why::Pressure,
        Signal::Stalls => Why::Stalls,
        Signal::Swapping => Why::Swapping,
    }
}

fn given_back(took: Option<Took>) -> Bytes {
    took.map_or(Bytes::ZERO, |took| took.released.bytes)
}

#[cfg(test)]
mod tests;
