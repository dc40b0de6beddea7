//! One iteration of the loop: read the host, decide, set the arena's limit, give memory back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_frontends::tenancy::Clock;
use sublet_policy::headroom::{
    ArenaBound, ArenaDecision, ArenaState, HeadroomSettings, HeadroomState, MemoryPressureSignal,
    POLL_MAX, decide,
};
use sublet_store::{Release, ReleaseOutcome, Worker};
use sublet_types::{Bytes, HostFigures, ReleaseMode};

use super::holds::{Holds, TooManyHolds};
use super::host_figures::ReadHost;
use super::manual_releases::ManualReleases;
use super::release_order::ReleaseOrder;
use crate::observe::events::{EventAmount, EventDetail, EventId, EventReason, Events, PostedEvent};

/// An ordered release copies what it keeps. After each such piece the follower reads the host again, so that a release
/// turns fast as soon as it must.
const ORDERED_PIECE: Bytes = Bytes::mib(64);

/// `held` and the host's figures are read one after the other. If `held` moved by more than this in between, they do
/// not belong to one instant and are read once more.
const INSTANT_SLACK: Bytes = Bytes::mib(4);

/// A failure to read the host is logged once in this time.
const TROUBLE_EVERY: Duration = Duration::from_secs(60);

/// What the loop saw and did last, for status and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadroomFigures {
    /// The host.
    pub host: HostFigures,
    /// What the arena held at that time.
    pub held: Bytes,
    /// What was decided. `None` before the first iteration.
    pub decision: Option<ArenaDecision>,
    /// Releases since the start.
    pub releases: ReleaseCounts,
    /// The last release.
    pub last_release: Option<CompletedRelease>,
}

/// Releases since the start, whoever asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseCounts {
    /// Ordered releases, each piece counted.
    pub ordered: u64,
    /// Fast.
    pub fast: u64,
    /// What they gave back, lost and kept.
    pub sum: ReleaseOutcome,
    /// Time that they took.
    pub time: Duration,
    /// Time that the longest took.
    pub longest: Duration,
}

/// A release, up to its last madvise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedRelease {
    /// What the release did.
    pub released: ReleaseOutcome,
    /// How blocks were chosen at the end. A release that turns urgent turns fast.
    pub mode: ReleaseMode,
    /// How long it took.
    pub time: Duration,
}

/// What an iteration did, and when the next is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// What the iteration gave back.
    pub release: Option<CompletedRelease>,
    /// When the next iteration is due.
    pub again_in: Duration,
}

/// Makes the arena follow a host.
pub struct ArenaFollower<H> {
    host: H,
    worker: Worker,
    clock: Clock,
    settings: HeadroomSettings,
    state: HeadroomState,
    holds: Holds,
    figures: Arc<Mutex<HeadroomFigures>>,
    trouble_at: Option<Duration>,
    /// What kept the arena from being larger at the last iteration.
    bound: Option<ArenaBound>,
    reports: ReportSinks,
}

/// Where the follower reports what it does.
#[derive(Clone, Default)]
pub(super) struct ReportSinks {
    pub(super) events: Events,
    pub(super) by_hand: Arc<ManualReleases>,
}

/// How a caller wants a release done.
#[derive(Clone, Copy)]
struct ReleasePlan {
    mode: ReleaseMode,
    order: ReleaseOrder,
    cap: Bytes,
}

impl<H: ReadHost> ArenaFollower<H> {
    /// A follower that has not read the host yet.
    pub fn new(
        host: H,
        worker: Worker,
        clock: Clock,
        settings: HeadroomSettings,
    ) -> ArenaFollower<H> {
        ArenaFollower {
            host,
            worker,
            clock,
            settings,
            state: HeadroomState::default(),
            holds: Holds::default(),
            figures: Arc::default(),
            trouble_at: None,
            bound: None,
            reports: ReportSinks::default(),
        }
    }

    /// Sets where the follower reports.
    pub(super) fn reporting(self, reports: ReportSinks) -> ArenaFollower<H> {
        ArenaFollower { reports, ..self }
    }

    /// The figures that the follower updates.
    pub fn figures(&self) -> Arc<Mutex<HeadroomFigures>> {
        Arc::clone(&self.figures)
    }

    /// One iteration at `at`: the time since the start, which never goes back.
    pub fn iterate(&mut self, at: Duration) -> Iteration {
        self.iterate_with(at, None)
    }

    /// Gives memory back by hand, and keeps it released for the hold. `at` returns the time since the start.
    pub fn release_by_hand(
        &mut self,
        order: ReleaseOrder,
        at: impl Fn() -> Duration,
    ) -> Result<CompletedRelease, TooManyHolds> {
        let began = Instant::now();
        let held = self.worker.store().held();
        let amount = self.releasable(order).min(held);
        let fast = amount >= self.settings.fast_from;
        let derived = if fast {
            ReleaseMode::Fast
        } else {
            ReleaseMode::Ordered
        };
        let plan = ReleasePlan {
            mode: order.mode.unwrap_or(derived),
            order,
            cap: held - amount,
        };
        let now = at();
        self.holds.add(plan.cap, now, now + order.hold)?;
        self.reports.by_hand.begin(order.by);
        let mut took = CompletedRelease {
            released: ReleaseOutcome::default(),
            mode: plan.mode,
            time: Duration::ZERO,
        };
        while let Some(piece) = self.iterate_with(at(), Some(plan)).release {
            took.released += piece.released;
            took.mode = piece.mode;
            if piece.released.bytes == Bytes::ZERO || took.released.bytes >= amount {
                break;
            }
        }
        took.time = began.elapsed();
        Ok(took)
    }

    /// The most that can be released. A tenant can give at most what it holds.
    fn releasable(&self, order: ReleaseOrder) -> Bytes {
        let Some(id) = order.tenant else {
            return order.amount;
        };
        let all = self.worker.store().all_held();
        let held = all.iter().find(|(tenant, _)| *tenant == id);
        held.map_or(Bytes::ZERO, |(_, held)| (*held).min(order.amount))
    }

    fn iterate_with(&mut self, at: Duration, plan: Option<ReleasePlan>) -> Iteration {
        let Some((held, host)) = self.read_host(at) else {
            return Iteration {
                release: None,
                again_in: POLL_MAX,
            };
        };
        let caps = [self.holds.cap(at), plan.map(|plan| plan.cap)];
        let arena = ArenaState {
            held,
            cap: caps.into_iter().flatten().min(),
        };
        let (state, decision) = decide(&self.state, &self.settings, &host, arena);
        self.state = state;
        self.worker.store().set_limit(decision.arena_max);
        let took = self.release(&decision, held, plan);
        let counted = took.filter(|took| plan.is_some() || took.released.bytes > Bytes::ZERO);
        self.publish(host, held, decision, counted);
        self.report(&decision, took.filter(|_| plan.is_none()));
        let left = held - decision.arena_max - given_back(took);
        let gives = given_back(took) > Bytes::ZERO;
        Iteration {
            release: took,
            again_in: if gives && left > Bytes::ZERO {
                Duration::ZERO
            } else {
                decision.poll_again_in
            },
        }
    }

    fn read_host(&mut self, at: Duration) -> Option<(Bytes, HostFigures)> {
        let (held, figures) = self.read_host_once(at)?;
        let held_after = self.worker.store().held();
        if held_after.0.abs_diff(held.0) <= INSTANT_SLACK.0 {
            return Some((held, figures));
        }
        self.read_host_once(at)
    }

    fn read_host_once(&mut self, at: Duration) -> Option<(Bytes, HostFigures)> {
        let held = self.worker.store().held();
        match self.host.read(at) {
            Ok(figures) => Some((held, figures)),
            Err(error) => {
                let is_news = self
                    .trouble_at
                    .is_none_or(|last| at.saturating_sub(last) >= TROUBLE_EVERY);
                if is_news {
                    self.trouble_at = Some(at);
                    let blind = PostedEvent::new(EventId::ArenaBlind, EventReason::Unreadable);
                    self.reports.events.post(blind.saying(error));
                }
                None
            }
        }
    }

    fn release(
        &mut self,
        decision: &ArenaDecision,
        held: Bytes,
        plan: Option<ReleasePlan>,
    ) -> Option<CompletedRelease> {
        let needed = decision.release?;
        let mode = match plan {
            Some(plan) if decision.arena_max >= plan.cap => plan.mode,
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
            tenant: plan.and_then(|plan| plan.order.tenant),
        };
        let began = Instant::now();
        let piece = || self.worker.release(release, self.clock.now());
        let released = match plan {
            Some(plan) => {
                let by_hand = &self.reports.by_hand;
                by_hand.release(plan.order.by, &self.worker, piece)
            }
            None => piece(),
        };
        Some(CompletedRelease {
            released,
            mode,
            time: began.elapsed(),
        })
    }

    /// Reports when the arena gives way, and when it begins to be braked. A release by hand is reported by the caller.
    fn report(&mut self, decision: &ArenaDecision, took: Option<CompletedRelease>) {
        let events = &self.reports.events;
        if let Some(took) = took.filter(|took| took.released.bytes > Bytes::ZERO) {
            events.post(took.event(release_reason(decision.bound)));
        }
        let before = self.bound.replace(decision.bound);
        match decision.bound {
            ArenaBound::Braked(signal) if before != Some(decision.bound) => {
                events.post(PostedEvent::new(EventId::ArenaBraked, brake_reason(signal)));
            }
            _ => {}
        }
    }

    fn publish(
        &self,
        host: HostFigures,
        held: Bytes,
        decision: ArenaDecision,
        took: Option<CompletedRelease>,
    ) {
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

impl CompletedRelease {
    /// The event of the release.
    pub fn event(&self, why: EventReason) -> PostedEvent {
        let id = match self.mode {
            ReleaseMode::Ordered => EventId::ReleaseOrdered,
            _ => EventId::ReleaseFast,
        };
        let cause = PostedEvent::new(id, why).of(EventAmount::Bytes(self.released.bytes));
        cause.with(EventDetail::Released(self.released))
    }
}

impl ReleaseCounts {
    fn count(&mut self, took: &CompletedRelease) {
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

/// The reason why an arena gives way.
fn release_reason(bound: ArenaBound) -> EventReason {
    match bound {
        ArenaBound::Host => EventReason::Host,
        ArenaBound::Cgroup => EventReason::Cgroup,
        ArenaBound::Ceiling => EventReason::Ceiling,
        ArenaBound::Hold => EventReason::Held,
        ArenaBound::Floor => EventReason::Floor,
        ArenaBound::Growing | ArenaBound::Braked(_) => EventReason::Shortage,
    }
}

fn brake_reason(signal: MemoryPressureSignal) -> EventReason {
    match signal {
        MemoryPressureSignal::Refaults => EventReason::Refaults,
        MemoryPressureSignal::Pressure => EventReason::Pressure,
        MemoryPressureSignal::Stalls => EventReason::Stalls,
        MemoryPressureSignal::Swapping => EventReason::Swapping,
    }
}

fn given_back(took: Option<CompletedRelease>) -> Bytes {
    took.map_or(Bytes::ZERO, |took| took.released.bytes)
}

#[cfg(test)]
mod tests;
