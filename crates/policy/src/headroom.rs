//! How large the arena may be: a function from the host's figures to a decision.
//!
//! ```text
//!   memory  ├── programs ──┬── file cache ──┬── arena ──┬─ reserve ─┬ watermark ┤
//!                          └ idle file pages ┘           └──── free ───────────┘
//! ```
//!
//! *Idle* is free memory, and old file pages that nobody reads again. The arena may hold what is idle, except for the
//! reserve. It takes free memory at once. It takes file pages only in a [`FilePageMode::Squeezed`] phase, which ends as
//! soon as one of them is missed.
//!
//! The arena follows a fall of the idle memory in one step. It follows a rise slowly. Once little is left (`PLENTY`),
//! it follows a rise only while no [`MemoryPressureSignal`] moves.

use std::time::Duration;

use sublet_types::{Bytes, HostFigures, PAGE_BYTES, ReleaseMode};

pub mod file_pages;
pub mod signal;

pub use file_pages::FilePageMode;
pub use signal::MemoryPressureSignal;

/// The fastest that one program was seen to take memory, and a little more: 18 GiB per second, when it touched huge
/// pages that a virtual machine had backed already.
pub(crate) const TAKER_BYTES_PER_SEC: u64 = 20 << 30;

/// What a program gets while the daemon notices and reacts, with room to be late on a busy host. A quarter of it passes
/// between two looks ([`HeadroomSettings`] are polled accordingly). Another quarter passes while blocks are handed back
/// (20 ms). The rest is for a thread that waits for its core, and stays free.
///
/// At 1.5 GiB a prototype that looked every 10 ms never let MemAvailable fall under 1.3 GiB.
pub(crate) const RESERVE_MIN: Bytes = Bytes::mib(1536);

/// A twentieth of the memory: larger hosts have more cores that touch memory at once. CacheLib's memory monitor and
/// oVirt's MOM keep a share of the host free, too (MOM: a fifth, as its answer takes seconds).
pub(crate) const RESERVE_SHARE: u64 = 20;

/// Never more than a quarter of the memory, so that a small host has something to give. Its shorter polls make up for
/// it.
pub(crate) const RESERVE_SHARE_MAX: u64 = 4;

/// Deficits of this size and above are released fast: Mortar §5.1 names 1 GiB as what its slow algorithm may still
/// handle.
pub(crate) const FAST_FROM: Bytes = Bytes::gib(1);

/// Growth after a release, in bytes per second. A fast regrowth would meet the next peak half-way.
pub const GROWTH_MIN: Bytes = Bytes::mib(256);

/// Larger hosts grow by a 96th of the memory per second, so that half of it comes back in 48 s.
pub(crate) const GROWTH_SHARE: u64 = 96;

/// How long growth rests after a signal: ten windows of [`signal::WINDOW`]. Memtrade's harvester cools down for
/// minutes, but it takes memory from the very program that it watches.
pub(crate) const BRAKE: Duration = Duration::from_secs(1);

/// No signal brakes growth if more than a tenth of the memory is idle, and this much beside the reserve. A program that
/// misses memory then has reached a limit of its own, as a container does that reads more files than it may keep.
pub(crate) const PLENTY: Bytes = Bytes::gib(1);
const PLENTY_SHARE: u64 = 10;

/// Falls smaller than this, or than a 16th of the reserve, are left to the reserve. The figures are a few MiB out of
/// step with each other, and each step costs evictions. MOM, too, ignores small changes.
pub(crate) const DEAD_BAND: Bytes = Bytes::mib(64);
const DEAD_BAND_SHARE: u64 = 16;

/// Releases look this far ahead of a fall, so that a program that takes memory steadily meets one release in 50 ms.
pub(crate) const LOOK_AHEAD: Duration = Duration::from_millis(50);

/// Ordered release is slower than fast release. The arena releases fast if nothing would be left within this time.
pub(crate) const URGENT: Duration = Duration::from_millis(500);

/// How often the daemon looks while memory moves and no more than two reserves are left.
pub(crate) const POLL_MOVING: Duration = Duration::from_millis(10);
/// The shortest pause between two looks.
pub(crate) const POLL_MIN: Duration = Duration::from_millis(1);
/// The longest pause between two looks.
pub const POLL_MAX: Duration = Duration::from_millis(250);

/// Memory that moved within this time counts as moving.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

/// Falls are measured over at least this time. Over less, the jitter of the figures looks like a rush.
const RATE_WINDOW: Duration = POLL_MOVING;

/// Growth never counts more than this since the last decision, so that a daemon that was stopped does not leap.
const GROWTH_STEP_MAX: Duration = Duration::from_secs(1);

/// What the owner of the host set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadroomSettings {
    /// What is kept free for the host. `None` derives it from the host's size (see [`reserve_for`]).
    pub reserve: Option<Bytes>,
    /// The arena is never smaller, whatever the host needs.
    pub floor: Bytes,
    /// The arena is never larger.
    pub ceiling: Option<Bytes>,
    /// Deficits of this size and above are released fast.
    pub fast_from: Bytes,
    /// Growth after a release, in bytes per second. `None` derives it from the host's size.
    pub growth: Option<Bytes>,
}

impl Default for HeadroomSettings {
    fn default() -> HeadroomSettings {
        HeadroomSettings {
            reserve: None,
            floor: Bytes::ZERO,
            ceiling: None,
            fast_from: FAST_FROM,
            growth: None,
        }
    }
}

/// The arena's state at a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaState {
    /// What it holds, including the index and the free list.
    pub held: Bytes,
    /// The limit that a manual release set, while it lasts.
    pub cap: Option<Bytes>,
}

/// What the daemon is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaDecision {
    /// What the arena may hold from now on.
    pub arena_max: Bytes,
    /// How to give back what the arena holds beyond that, if it does.
    pub release: Option<ReleaseMode>,
    /// When to look again.
    pub poll_again_in: Duration,
    /// The reserve that this decision kept.
    pub reserve: Bytes,
    /// What keeps the arena from being larger.
    pub bound: ArenaBound,
}

/// What keeps the arena from being larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaBound {
    /// The host has no more idle memory than the reserve.
    Host,
    /// The cgroup has no more idle memory than its reserve.
    Cgroup,
    /// The ceiling that was set.
    Ceiling,
    /// A manual release, while it is held.
    Hold,
    /// The floor that was set, although the host would need more.
    Floor,
    /// It is growing at its pace.
    Growing,
    /// It would grow, but a signal moved lately.
    Braked(MemoryPressureSignal),
}

/// What one decision leaves for the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadroomState {
    last: Option<LastDecision>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct LastDecision {
    at: Duration,
    arena_max: Bytes,
    supply: Bytes,
    moved_at: Duration,
    signals: signal::SignalWatch,
    files: FilePageMode,
}

/// The reserve of a host or a cgroup that has this much memory.
pub fn reserve_for(memory: Bytes) -> Bytes {
    let share = Bytes(memory.0 / RESERVE_SHARE);
    let most = Bytes(memory.0 / RESERVE_SHARE_MAX);
    share.max(RESERVE_MIN).min(most)
}

/// Growth after a release on a host that has this much memory, in bytes per second.
pub(crate) fn growth_for(memory: Bytes) -> Bytes {
    Bytes(memory.0 / GROWTH_SHARE).max(GROWTH_MIN)
}

/// Decides how large the arena may be. The figures must not be older than those of the last decision.
pub fn decide(
    state: &HeadroomState,
    settings: &HeadroomSettings,
    host: &HostFigures,
    arena: ArenaState,
) -> (HeadroomState, ArenaDecision) {
    let view = HostView::new(state, settings, host, arena);
    let (target, bound) = view.target();
    let (arena_max, bound) = view.step(target, bound);
    let arena_max = view.clamp(arena_max);
    let decision = ArenaDecision {
        arena_max,
        release: view.release(arena_max),
        poll_again_in: view.poll_again_in(arena_max),
        reserve: view.reserve,
        bound,
    };
    let last = LastDecision {
        at: host.at,
        arena_max,
        supply: view.supply,
        moved_at: view.moved_at,
        signals: view.signals,
        files: view.next_files(target, arena_max),
    };
    (HeadroomState { last: Some(last) }, decision)
}

/// One decision's view of the host.
struct HostView<'a> {
    settings: &'a HeadroomSettings,
    host: &'a HostFigures,
    arena: ArenaState,
    last: Option<LastDecision>,
    reserve: Bytes,
    signals: signal::SignalWatch,
    /// Time since the last decision.
    since: Duration,
    /// What the arena could hold if nothing were kept free: what it holds plus what is free beside it.
    supply: Bytes,
    /// What the host can still take before it is harmed.
    left: Bytes,
    /// How fast `supply` falls, in bytes per second. Zero while it only jitters.
    fall: Bytes,
    /// When `supply` last moved by more than jitter.
    moved_at: Duration,
    files: FilePageMode,
}

impl<'a> HostView<'a> {
    fn new(
        state: &HeadroomState,
        settings: &'a HeadroomSettings,
        host: &'a HostFigures,
        arena: ArenaState,
    ) -> HostView<'a> {
        let last = state.last;
        let reserve = settings.reserve.unwrap_or_else(|| reserve_for(host.memory));
        let left_in_cgroup = host.cgroup.map_or(Bytes(u64::MAX), |cgroup| cgroup.idle());
        let left = (host.free - host.watermark).min(left_in_cgroup);
        let supply = arena.held + left;
        let since = last.map_or(Duration::ZERO, |last| host.at.saturating_sub(last.at));
        let mut view = HostView {
            settings,
            host,
            arena,
            last,
            reserve,
            signals: signal::SignalWatch::next(last.map(|last| last.signals), host),
            since,
            supply,
            left,
            fall: Bytes::ZERO,
            moved_at: host.at,
            files: last.map_or_else(FilePageMode::default, |last| last.files),
        };
        if let Some(last) = last {
            let moved = Bytes(last.supply.0.abs_diff(supply.0)) > Bytes(view.dead_band().0 / 4);
            view.moved_at = if moved { host.at } else { last.moved_at };
            if moved {
                view.fall = per_second(last.supply - supply, since.max(RATE_WINDOW));
            }
        }
        view
    }

    /// How large the arena could be if it changed at once, and what limits that.
    fn target(&self) -> (Bytes, ArenaBound) {
        let ahead = in_time(self.fall, LOOK_AHEAD).min(self.reserve);
        let mut least = (self.host_room() - ahead, ArenaBound::Host);
        let others = [
            (
                self.cgroup_room().map(|room| room - ahead),
                ArenaBound::Cgroup,
            ),
            (self.settings.ceiling, ArenaBound::Ceiling),
            (self.arena.cap, ArenaBound::Hold),
        ];
        for (room, bound) in others {
            if let Some(room) = room.filter(|room| *room < least.0) {
                least = (room, bound);
            }
        }
        if least.0 < self.settings.floor {
            least = match least.1 {
                ArenaBound::Hold => (self.settings.floor, ArenaBound::Hold),
                _ => (self.settings.floor, ArenaBound::Floor),
            };
        }
        least
    }

    fn host_room(&self) -> Bytes {
        let host = self.host;
        let idle = match self.files {
            FilePageMode::Squeezed { .. } => host.free + host.droppable_file(),
            FilePageMode::Kept { waived, .. } => host.free + waived.min(self.reserve),
        };
        (self.arena.held + idle) - (host.watermark + self.reserve)
    }

    /// What the cgroup leaves room for. In a cgroup at its limit, a program that takes memory drops its own old file
    /// pages, so they count as idle. The arena gives back the part of them that was read again since the last decision.
    fn cgroup_room(&self) -> Option<Bytes> {
        let cgroup = self.host.cgroup?;
        let reserve = self.reserve_in(cgroup.limit);
        let room = (self.arena.held + cgroup.idle()) - reserve;
        let missed = Bytes(self.signals.refaults_in_cgroup * PAGE_BYTES);
        Some(match self.last {
            Some(last) if missed > Bytes::ZERO => room.min(last.arena_max - missed),
            _ => room,
        })
    }

    /// The arena's next size on the way to `target`.
    fn step(&self, target: Bytes, bound: ArenaBound) -> (Bytes, ArenaBound) {
        let Some(last) = self.last else {
            return (target, bound);
        };
        let old = last.arena_max;
        if target < old {
            let small = target + self.dead_band() >= old;
            return (if small { old } else { target }, bound);
        }
        let signal = self.signals.moved_within(BRAKE, self.host.at);
        if let Some(signal) = signal.filter(|_| !self.is_plentiful()) {
            let held_back = if old < target {
                ArenaBound::Braked(signal)
            } else {
                bound
            };
            return (old, held_back);
        }
        let grown = old + in_time(self.growth(), self.since.min(GROWTH_STEP_MAX));
        let grown = self.files.pace(grown, self.arena.held).max(old);
        if grown < target {
            (grown, ArenaBound::Growing)
        } else {
            (target, bound)
        }
    }

    /// Applies what the owner set: it holds to the byte, and the floor wins over all.
    fn clamp(&self, arena_max: Bytes) -> Bytes {
        let most = Bytes(u64::MAX);
        let ceiling = self.settings.ceiling.unwrap_or(most);
        let cap = self.arena.cap.unwrap_or(most);
        arena_max.min(ceiling).min(cap).max(self.settings.floor)
    }

    fn release(&self, arena_max: Bytes) -> Option<ReleaseMode> {
        let deficit = self.arena.held - arena_max;
        if deficit == Bytes::ZERO {
            return None;
        }
        if deficit >= self.settings.fast_from || self.is_urgent() {
            Some(ReleaseMode::Fast)
        } else {
            Some(ReleaseMode::Ordered)
        }
    }

    fn is_urgent(&self) -> bool {
        let waived = self.files.waived(self.reserve);
        self.left < in_time(self.fall, URGENT)
            || self
                .sides()
                .any(|(left, reserve)| left * 2 < reserve - waived)
    }

    /// Returns whether so much is idle that no signal can mean a want of memory on the host, or in this process's
    /// cgroup.
    fn is_plentiful(&self) -> bool {
        let memory = [Some(self.host.memory), self.host.cgroup.map(|it| it.limit)];
        let memory = memory.into_iter().flatten();
        memory.zip(self.sides()).all(|(memory, (idle, reserve))| {
            idle > Bytes(memory.0 / PLENTY_SHARE) && idle > reserve + PLENTY
        })
    }

    /// What is left of the host and of the cgroup, each with its own reserve.
    fn sides(&self) -> impl Iterator<Item = (Bytes, Bytes)> {
        let host = (self.host.free - self.host.watermark, self.reserve);
        let cgroup = self.host.cgroup;
        let cgroup = cgroup.map(|cgroup| (cgroup.idle(), self.reserve_in(cgroup.limit)));
        [Some(host), cgroup].into_iter().flatten()
    }

    /// The reserve of a cgroup with that limit.
    fn reserve_in(&self, limit: Bytes) -> Bytes {
        self.reserve.min(reserve_for(limit))
    }

    /// When to look again: so soon that at most a quarter of what is left can be gone by then.
    fn poll_again_in(&self, arena_max: Bytes) -> Duration {
        let has_nothing_to_give = arena_max <= self.settings.floor;
        if has_nothing_to_give {
            return POLL_MAX;
        }
        let quarter = Bytes(self.left.0 / 4);
        let calm = time_for(quarter, Bytes(TAKER_BYTES_PER_SEC)).clamp(POLL_MOVING, POLL_MAX);
        let moved_lately = self.host.at.saturating_sub(self.moved_at) < SETTLE;
        let is_near = self.sides().any(|(left, reserve)| left < reserve * 2);
        let is_moving =
            (moved_lately && is_near) || self.files.is_squeezed() || self.arena.held > arena_max;
        let pace = if is_moving { POLL_MOVING } else { calm };
        if self.fall > Bytes::ZERO {
            pace.min(time_for(quarter, self.fall)).max(POLL_MIN)
        } else {
            pace
        }
    }

    fn next_files(&self, target: Bytes, arena_max: Bytes) -> FilePageMode {
        let full = self.arena.held + file_pages::AHEAD >= arena_max;
        let bounded = self.settings.ceiling.is_some_and(|most| arena_max >= most);
        let sight = file_pages::SqueezeInputs {
            now: self.host.at,
            quiet_since: self.signals.moved_at(),
            moved: self.signals.is_moving(self.host.at),
            held: self.arena.held,
            wanted: full && !bounded && self.arena.cap.is_none(),
            worth: self.host.droppable_file() >= self.reserve * 2,
            done: target <= arena_max,
            short: self.reserve - (self.host.free - self.host.watermark),
            ramp: in_time(self.growth(), self.since),
        };
        self.files.next(&sight)
    }

    fn growth(&self) -> Bytes {
        let derived = || growth_for(self.host.memory);
        self.settings.growth.unwrap_or_else(derived)
    }

    fn dead_band(&self) -> Bytes {
        Bytes(self.reserve.0 / DEAD_BAND_SHARE).min(DEAD_BAND)
    }
}

/// The amount that flows in `time` at `rate` per second.
fn in_time(rate: Bytes, time: Duration) -> Bytes {
    let bytes = u128::from(rate.0) * time.as_micros() / 1_000_000;
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}

fn per_second(amount: Bytes, time: Duration) -> Bytes {
    let bytes = u128::from(amount.0) * 1_000_000 / time.as_micros().max(1);
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}

fn time_for(amount: Bytes, rate: Bytes) -> Duration {
    let micros = u128::from(amount.0) * 1_000_000 / u128::from(rate.0.max(1));
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
