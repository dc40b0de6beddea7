use proptest::prelude::*;
use sublet_types::{CgroupFigures, PressureTotals};

use super::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A host in a few numbers: programs, file pages and an arena share its memory. It is the oracle of the closed-loop
/// tests: what everybody holds always adds up to `memory`.
#[derive(Clone, Copy)]
struct SimulatedHost {
    at: Duration,
    memory: Bytes,
    programs: Bytes,
    old_files: Bytes,
    held: Bytes,
    refaults: u64,
    stalls: u64,
}

impl SimulatedHost {
    fn new(memory: Bytes, programs: Bytes) -> SimulatedHost {
        SimulatedHost {
            at: Duration::ZERO,
            memory,
            programs,
            old_files: Bytes::ZERO,
            held: Bytes::ZERO,
            refaults: 0,
            stalls: 0,
        }
    }

    fn free(&self) -> Bytes {
        self.memory - (self.programs + self.old_files + self.held)
    }

    fn figures(&self) -> HostFigures {
        HostFigures {
            at: self.at,
            memory: self.memory,
            free: self.free(),
            inactive_file: self.old_files,
            watermark: Bytes::mib(64),
            refaults: self.refaults,
            stalls: self.stalls,
            ..HostFigures::default()
        }
    }

    /// The arena fills up to its limit, or gives back what is beyond it. The kernel drops old file pages when free
    /// memory is under its watermark. Then time passes.
    fn obey(&mut self, decision: &ArenaDecision) {
        self.held = decision
            .arena_max
            .min(self.held + self.free() + self.old_files);
        let taken = self.programs + self.old_files + self.held + Bytes::mib(64);
        self.old_files -= taken - self.memory;
        self.at += decision.poll_again_in;
    }
}

struct HeadroomLoop {
    settings: HeadroomSettings,
    state: HeadroomState,
    host: SimulatedHost,
    cap: Option<Bytes>,
}

impl HeadroomLoop {
    fn new(settings: HeadroomSettings, host: SimulatedHost) -> HeadroomLoop {
        HeadroomLoop {
            settings,
            state: HeadroomState::default(),
            host,
            cap: None,
        }
    }

    fn step(&mut self) -> ArenaDecision {
        let arena = ArenaState {
            held: self.host.held,
            cap: self.cap,
        };
        let (state, decision) = decide(&self.state, &self.settings, &self.host.figures(), arena);
        self.state = state;
        self.host.obey(&decision);
        decision
    }

    fn run(&mut self, time: Duration) -> ArenaDecision {
        let end = self.host.at + time;
        let mut decision = self.step();
        while self.host.at < end {
            decision = self.step();
        }
        decision
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn host_24gib() -> SimulatedHost {
    SimulatedHost::new(Bytes::gib(24), Bytes::gib(2))
}

#[test]
fn reserves_fit_their_hosts() {
    for (memory, reserve) in [
        (Bytes::gib(1), Bytes::mib(256)),
        (Bytes::gib(4), Bytes::gib(1)),
        (Bytes::gib(24), Bytes::mib(1536)),
        (Bytes::gib(512), Bytes(512 * GIB / 20)),
    ] {
        assert_eq!(reserve_for(memory), reserve, "{memory}");
    }
}

#[test]
fn at_the_start_the_arena_may_be_all_that_is_idle_but_the_reserve() {
    let decision = HeadroomLoop::new(HeadroomSettings::default(), host_24gib()).step();
    let expected = Bytes::gib(22) - Bytes::mib(64) - Bytes::mib(1536);
    assert_eq!(decision.arena_max, expected);
    assert_eq!(decision.bound, ArenaBound::Host);
    assert_eq!(decision.release, None);
}

#[test]
fn file_pages_are_not_idle_at_the_start() {
    let mut host = host_24gib();
    host.old_files = Bytes::gib(10);
    let decision = HeadroomLoop::new(HeadroomSettings::default(), host).step();
    assert_eq!(
        decision.arena_max,
        Bytes::gib(12) - Bytes::mib(64) - Bytes::mib(1536)
    );
}

#[test]
fn after_a_release_it_grows_at_its_pace_and_is_back_within_a_minute() {
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
    let before = control.run(secs(1)).arena_max;
    control.host.programs = Bytes::gib(14);
    let under = control.run(secs(1)).arena_max;
    assert!(under + Bytes::gib(12) <= before + DEAD_BAND);
    control.host.programs = Bytes::gib(2);
    let second = control.run(secs(1)).arena_max;
    let pace = growth_for(Bytes::gib(24));
    assert!(second <= under + pace * 2, "{second} after {under}");
    assert_eq!(control.run(secs(55)).arena_max, before);
}

#[test]
fn small_deficits_go_ordered_and_large_ones_fast() {
    for (programs, mode) in [
        (Bytes::mib(2048 + 200), ReleaseMode::Ordered),
        (Bytes::mib(2048 + 1200), ReleaseMode::Fast),
    ] {
        let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
        control.run(secs(1));
        control.host.programs = programs;
        control.host.at += Duration::from_millis(500);
        let decision = control.step();
        assert_eq!(decision.release, Some(mode), "{programs}");
    }
}

#[test]
fn a_small_deficit_in_a_rush_goes_fast() {
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
    control.run(secs(1));
    control.host.programs += Bytes::mib(500);
    let decision = control.step();
    assert_eq!(decision.release, Some(ReleaseMode::Fast));
    assert!(decision.poll_again_in <= POLL_MOVING);
}

#[test]
fn the_fastest_taker_never_meets_less_than_half_of_the_reserve() {
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
    control.run(secs(2));
    let mut least = control.host.free();
    let end = control.host.programs + Bytes::gib(12);
    while control.host.programs < end {
        let before = control.host.at;
        control.step();
        let taken = in_time(Bytes(TAKER_BYTES_PER_SEC), control.host.at - before);
        control.host.programs += taken;
        least = least.min(control.host.free());
    }
    assert!(least >= Bytes(RESERVE_MIN.0 / 2), "{least}");
}

#[test]
fn a_calm_host_is_looked_at_seldom_and_a_moving_one_often() {
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
    let calm = control.run(secs(3)).poll_again_in;
    assert!(
        calm > Duration::from_millis(15) && calm <= POLL_MAX,
        "{calm:?}"
    );
    control.host.programs += Bytes::mib(32);
    assert!(control.step().poll_again_in <= POLL_MOVING);
}

#[test]
fn far_from_the_reserve_movement_is_no_reason_for_haste() {
    let settings = HeadroomSettings {
        ceiling: Some(Bytes::gib(2)),
        ..HeadroomSettings::default()
    };
    let mut control = HeadroomLoop::new(settings, host_24gib());
    control.run(secs(1));
    control.host.programs += Bytes::mib(300);
    let decision = control.step();
    assert!(decision.poll_again_in > POLL_MAX / 2);
    control.host.programs = Bytes::gib(20);
    assert!(control.step().poll_again_in <= POLL_MOVING);
}

#[test]
fn with_nothing_to_give_there_is_no_haste() {
    let full = SimulatedHost::new(Bytes::gib(24), Bytes::mib(24 * 1024 - 100));
    let decision = HeadroomLoop::new(HeadroomSettings::default(), full).run(secs(2));
    assert_eq!(decision.arena_max, Bytes::ZERO);
    assert_eq!(decision.poll_again_in, POLL_MAX);
}

#[test]
fn an_empty_arena_that_may_fill_at_any_moment_is_looked_after_like_a_full_one() {
    let memory = Bytes::gib(24);
    let left = reserve_for(memory) + Bytes::mib(512);
    let mut control = HeadroomLoop::new(
        HeadroomSettings::default(),
        SimulatedHost::new(memory, memory - left),
    );
    for taken in [0, 0, 32] {
        control.host.held = Bytes::ZERO;
        control.host.programs += Bytes::mib(taken);
        control.step();
    }
    control.host.held = Bytes::ZERO;
    let decision = control.step();
    assert!(decision.arena_max > Bytes::ZERO);
    assert!(
        decision.poll_again_in <= POLL_MOVING,
        "{:?}",
        decision.poll_again_in
    );
}

#[test]
fn a_hold_caps_the_arena_to_the_byte_and_growth_follows_it() {
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
    let before = control.run(secs(1)).arena_max;
    let cap = before - Bytes::mib(2);
    control.cap = Some(cap);
    let held = control.step();
    assert_eq!((held.arena_max, held.bound), (cap, ArenaBound::Hold));
    control.cap = None;
    assert_eq!(control.run(secs(1)).arena_max, before);
}

#[test]
fn a_tighter_cgroup_binds_and_its_old_file_pages_are_idle() {
    let mut figures = host_24gib().figures();
    figures.cgroup = Some(CgroupFigures {
        limit: Bytes::gib(4),
        usage: Bytes::gib(3),
        inactive_file: Bytes::gib(2),
        refaults: 0,
    });
    let (_, decision) = decide(
        &HeadroomState::default(),
        &HeadroomSettings::default(),
        &figures,
        ArenaState::default(),
    );
    assert_eq!(decision.arena_max, Bytes::gib(3) - Bytes::gib(1));
    assert_eq!(decision.bound, ArenaBound::Cgroup);
}

/// It keeps little free beside the host's reserve, and has as much free as it is to.
#[test]
fn a_small_cgroup_with_its_own_reserve_is_in_no_haste() {
    let limit = Bytes::gib(2);
    let mut figures = host_24gib().figures();
    figures.cgroup = Some(CgroupFigures {
        limit,
        usage: limit - reserve_for(limit),
        inactive_file: Bytes::ZERO,
        refaults: 0,
    });
    let arena = ArenaState {
        held: Bytes::gib(1),
        cap: None,
    };
    let settings = HeadroomSettings::default();
    let (state, calm) = decide(&HeadroomState::default(), &settings, &figures, arena);
    assert_eq!(calm.release, None);
    figures.at += secs(1);
    let mut short = |bytes: Bytes| {
        let usage = limit - reserve_for(limit) + bytes;
        let cgroup = figures.cgroup.as_mut().expect("a cgroup");
        cgroup.usage = usage;
        decide(&state, &settings, &figures, arena).1.release
    };
    assert_eq!(short(Bytes::mib(100)), Some(ReleaseMode::Ordered));
    assert_eq!(short(Bytes::mib(400)), Some(ReleaseMode::Fast));
}

#[test]
fn a_cgroup_gets_back_the_file_pages_that_it_misses() {
    let mut figures = host_24gib().figures();
    let cgroup = CgroupFigures {
        limit: Bytes::gib(4),
        usage: Bytes::gib(3),
        inactive_file: Bytes::gib(2),
        refaults: 1000,
    };
    figures.cgroup = Some(cgroup);
    let settings = HeadroomSettings::default();
    let arena = ArenaState {
        held: Bytes::gib(2),
        cap: None,
    };
    let (state, before) = decide(&HeadroomState::default(), &settings, &figures, arena);
    figures.at += secs(1);
    figures.cgroup = Some(CgroupFigures {
        refaults: 1000 + 50_000,
        ..cgroup
    });
    let (_, after) = decide(&state, &settings, &figures, arena);
    assert_eq!(
        after.arena_max,
        before.arena_max - Bytes(50_000 * PAGE_BYTES)
    );
}

#[test]
fn each_signal_brakes_growth_and_is_named() {
    type FigureChange = fn(&mut HostFigures);
    let moves: [(MemoryPressureSignal, FigureChange); 4] = [
        (MemoryPressureSignal::Stalls, |figures| figures.stalls += 1),
        (MemoryPressureSignal::Swapping, |figures| {
            figures.swapped_out += 1
        }),
        (MemoryPressureSignal::Refaults, |figures| {
            figures.refaults += 3000
        }),
        (MemoryPressureSignal::Pressure, |figures| {
            figures.pressure = Some(PressureTotals {
                some: Duration::from_millis(20),
                full: Duration::ZERO,
            });
        }),
    ];
    for (signal, change) in moves {
        let (before, after) = when_256_mib_more_are_free(Bytes::gib(2), change);
        assert_eq!(after.arena_max, before.arena_max);
        assert_eq!(after.bound, ArenaBound::Braked(signal));
        let (before, after) = when_256_mib_more_are_free(Bytes::mib(2700), change);
        assert_eq!(
            after.arena_max,
            before.arena_max + growth_for(Bytes::gib(24))
        );
    }
}

/// The decisions before and after, for an arena that holds all of 24 GiB that is not free.
fn when_256_mib_more_are_free(
    free: Bytes,
    change: impl Fn(&mut HostFigures),
) -> (ArenaDecision, ArenaDecision) {
    let mut host = host_24gib();
    host.held = host.free() - free;
    let arena = ArenaState {
        held: host.held,
        cap: None,
    };
    let mut figures = host.figures();
    figures.pressure = Some(PressureTotals::default());
    let settings = HeadroomSettings::default();
    let (state, before) = decide(&HeadroomState::default(), &settings, &figures, arena);
    figures.at += secs(1);
    figures.free += Bytes::mib(256);
    change(&mut figures);
    (before, decide(&state, &settings, &figures, arena).1)
}

/// A container reads more files than its limit lets it keep, again and again, beside 21 GiB of idle memory.
#[test]
fn who_thrashes_at_a_limit_of_its_own_holds_up_no_arena() {
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
    control.host.programs = Bytes::gib(20);
    control.run(secs(1));
    control.host.programs = Bytes::gib(2);
    let end = control.host.at + secs(80);
    let mut decision = control.step();
    while control.host.at < end {
        control.host.refaults += 20_000;
        decision = control.step();
    }
    let left = control.host.free() - Bytes::mib(64);
    assert!(
        left <= reserve_for(Bytes::gib(24)) + PLENTY,
        "{left} idle: {decision:?}"
    );
}

/// A host whose memory is nearly all old file pages, as after a month of backups.
#[test]
fn old_file_pages_make_way_once_they_have_been_quiet() {
    let mut host = SimulatedHost::new(Bytes::gib(24), Bytes::gib(4));
    host.old_files = Bytes::gib(17);
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host);
    let before = control.run(secs(20)).arena_max;
    assert!(before < Bytes::gib(2), "{before}");
    let after = control.run(secs(120)).arena_max;
    assert!(after > Bytes::gib(16), "{after}");
    assert!(
        control.host.free() >= RESERVE_MIN,
        "{}",
        control.host.free()
    );
    assert!(
        control.host.old_files >= Bytes::gib(1),
        "{}",
        control.host.old_files
    );
}

#[test]
fn a_squeeze_ends_when_the_pages_are_missed_and_waits_twice_as_long() {
    let mut host = SimulatedHost::new(Bytes::gib(24), Bytes::gib(4));
    host.old_files = Bytes::gib(17);
    let mut control = HeadroomLoop::new(HeadroomSettings::default(), host);
    let mut squeezes = Vec::new();
    let mut was_squeezed = false;
    while control.host.at < secs(400) {
        control.step();
        let is_squeezed = control.state.last.expect("decided").files.is_squeezed();
        if is_squeezed && !was_squeezed {
            squeezes.push(control.host.at.as_secs());
        }
        if is_squeezed {
            control.host.refaults += 10_000;
        }
        was_squeezed = is_squeezed;
    }
    assert_eq!(squeezes.len(), 3, "{squeezes:?}");
    assert!(
        squeezes.windows(3).all(|s| s[2] - s[1] > s[1] - s[0]),
        "{squeezes:?}"
    );
    assert!(control.host.old_files > Bytes::gib(16));
}

#[test]
fn an_arena_that_nobody_fills_leaves_the_files_alone() {
    let mut host = SimulatedHost::new(Bytes::gib(24), Bytes::gib(4));
    host.old_files = Bytes::gib(17);
    let mut figures = host.figures();
    let mut state = HeadroomState::default();
    for _ in 0..2000 {
        let (next, decision) = decide(
            &state,
            &HeadroomSettings::default(),
            &figures,
            ArenaState::default(),
        );
        assert!(decision.arena_max < Bytes::gib(2), "{}", decision.arena_max);
        figures.at += decision.poll_again_in;
        state = next;
    }
    assert!(figures.at > secs(60));
}

prop_compose! {
    fn any_settings()(
        reserve in proptest::option::of(0..4 * GIB),
        floor in 0..2 * GIB,
        above in proptest::option::of(0..30 * GIB),
    ) -> HeadroomSettings {
        HeadroomSettings {
            reserve: reserve.map(Bytes),
            floor: Bytes(floor),
            ceiling: above.map(|above| Bytes(floor + above)),
            ..HeadroomSettings::default()
        }
    }
}

prop_compose! {
    /// What happens to a host between two decisions.
    fn any_event()(
        programs in 0..22 * GIB,
        old_files in 0..6 * GIB,
        refaults in prop_oneof![Just(0u64), 0..5000u64],
        stalls in prop_oneof![4 => Just(0u64), 1 => 1..3u64],
        millis in 0..2000u64,
        cap in proptest::option::weighted(0.1, 0..20 * GIB),
    ) -> (Bytes, Bytes, u64, u64, u64, Option<Bytes>) {
        (Bytes(programs), Bytes(old_files), refaults, stalls, millis, cap.map(Bytes))
    }
}

type HostStep = (Bytes, Bytes, u64, u64, u64, Option<Bytes>);

fn suffer(control: &mut HeadroomLoop, event: &HostStep) {
    let (programs, old_files, refaults, stalls, millis, cap) = *event;
    control.host.programs = programs;
    control.host.old_files = old_files;
    control.host.refaults += refaults;
    control.host.stalls += stalls;
    control.host.at += Duration::from_millis(millis);
    control.cap = cap;
}

proptest! {
    #[test]
    fn the_arena_stays_between_floor_and_ceiling(
        settings in any_settings(),
        events in proptest::collection::vec(any_event(), 1..40),
    ) {
        let mut control = HeadroomLoop::new(settings, host_24gib());
        for event in &events {
            suffer(&mut control, event);
            let decision = control.step();
            prop_assert!(decision.arena_max >= settings.floor);
            prop_assert!(settings.ceiling.is_none_or(|most| decision.arena_max <= most));
            let cap = control.cap.map(|cap| cap.max(settings.floor));
            prop_assert!(cap.is_none_or(|cap| decision.arena_max <= cap));
            prop_assert!((POLL_MIN..=POLL_MAX).contains(&decision.poll_again_in));
        }
    }

    #[test]
    fn it_never_grows_while_a_signal_moves(
        events in proptest::collection::vec(any_event(), 2..40),
    ) {
        let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
        let mut before = control.step().arena_max;
        for event in &events {
            suffer(&mut control, event);
            let moves = event.3 > 0 || event.2 > 5000 * event.4 / 1000 + 26;
            let is_plentiful = control.host.free() > Bytes::mib(64) + RESERVE_MIN + PLENTY;
            let after = control.step().arena_max;
            prop_assert!(!moves || is_plentiful || after <= before, "{} grew to {}", before, after);
            before = after;
        }
    }

    #[test]
    fn more_free_memory_never_makes_it_smaller(
        settings in any_settings(),
        events in proptest::collection::vec(any_event(), 0..20),
        more in 0..4 * GIB,
        millis in 1..500u64,
    ) {
        let mut control = HeadroomLoop::new(settings, host_24gib());
        for event in &events {
            suffer(&mut control, event);
            control.step();
        }
        let poor = HostFigures { at: control.host.at + Duration::from_millis(millis), ..control.host.figures() };
        let rich = HostFigures { free: poor.free + Bytes(more), ..poor };
        let arena = ArenaState { held: control.host.held, cap: control.cap };
        let (_, less) = decide(&control.state, &settings, &poor, arena);
        let (_, most) = decide(&control.state, &settings, &rich, arena);
        prop_assert!(less.arena_max <= most.arena_max);
    }

    /// Whatever went before, a full arena gives back at once what the host takes of the reserve.
    #[test]
    fn a_fall_is_followed_in_one_decision(
        events in proptest::collection::vec(any_event(), 0..20),
        fall in 200 * MIB..1500 * MIB,
    ) {
        let mut control = HeadroomLoop::new(HeadroomSettings::default(), host_24gib());
        for event in &events {
            suffer(&mut control, event);
            control.step();
        }
        control.host.programs = Bytes::gib(2);
        control.host.old_files = Bytes::ZERO;
        control.cap = None;
        control.run(secs(150));
        control.host.programs += Bytes(fall);
        let decision = control.step();
        prop_assert!(decision.release.is_some());
        prop_assert!(control.host.free() >= RESERVE_MIN);
    }

    /// On a constant host with jittering figures, memory is given back once at most after a settling time, if the arena
    /// had come to rest at the dead band's edge.
    #[test]
    fn on_a_constant_host_it_comes_to_rest(
        programs in 0..20 * GIB,
        old_files in 0..3 * GIB,
        start in 0..20 * GIB,
        jitter in proptest::collection::vec(0..16 * MIB, 64),
    ) {
        let mut host = SimulatedHost::new(Bytes::gib(24), Bytes(start));
        host.old_files = Bytes(old_files.min(2 * GIB));
        let mut control = HeadroomLoop::new(HeadroomSettings::default(), host);
        control.step();
        control.host.programs = Bytes(programs);
        control.run(secs(120));
        let rest = control.host.held;
        let mut releases = 0;
        for amount in jitter {
            control.host.programs = Bytes(programs + amount);
            let decision = control.step();
            releases += u32::from(decision.release.is_some());
            prop_assert!(releases <= 1);
            prop_assert!(decision.arena_max.0.abs_diff(rest.0) <= DEAD_BAND.0 + 16 * MIB);
        }
    }
}
