//! One reader at depth 1 before one lender and one backing, in virtual time. Of its reads, 60 % lie with the lender. The
//! tests compare its reads per second with those of a reader that borrows nothing.

use std::time::Duration;

use sublet_lend::guard::{GuardPolicy, GuardState, LenderGuard};

/// What a far read takes if nothing is injected.
const FAR: Duration = Duration::from_micros(25);

/// Of 100 reads, those whose page the lender holds.
const FAR_PERCENT: u64 = 60;

/// The reader runs for this long before it is measured. What is injected is there from the start.
const WARM_UP: Duration = Duration::from_secs(30);

/// The reader is measured for this long: two periods of the longest injected pattern.
const MEASURED: Duration = Duration::from_secs(60);

/// What is added to a lender's answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InjectedDelay {
    Nothing,
    Constant(Duration),
    /// One answer in the first number is late by the duration.
    OneIn(u64, Duration),
    /// The first 5 s of each 30 s.
    Burst(Duration),
}

impl InjectedDelay {
    fn at(self, now: Duration, luck: &mut Luck) -> Duration {
        match self {
            InjectedDelay::Constant(delay) => delay,
            InjectedDelay::OneIn(number, delay) if luck.below(number) == 0 => delay,
            InjectedDelay::Burst(delay) if now.as_secs() % 30 < 5 => delay,
            _ => Duration::ZERO,
        }
    }
}

/// The reader's rule.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReaderRule {
    Always,
    Guarded(GuardPolicy),
}

/// Random numbers of a fixed seed (xorshift64).
struct Luck(u64);

impl Luck {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % bound
    }
}

struct Reader {
    backing: Duration,
    injected: InjectedDelay,
    guard: Option<LenderGuard>,
    luck: Luck,
    now: Duration,
    /// When the next ping leaves, or when the one on its way comes back and what it took.
    next_ping: Duration,
    ping: Option<(Duration, Duration)>,
    reads: u64,
    changes: u64,
}

impl Reader {
    fn new(rule: ReaderRule, backing: Duration, injected: InjectedDelay) -> Reader {
        let mut luck = Luck(0x9e37_79b9_7f4a_7c15);
        let ping = FAR + injected.at(Duration::ZERO, &mut luck);
        let guard = match rule {
            ReaderRule::Always => None,
            ReaderRule::Guarded(policy) => Some(LenderGuard::new(policy, ping, backing)),
        };
        Reader {
            backing,
            injected,
            guard,
            luck,
            now: Duration::ZERO,
            next_ping: Duration::ZERO,
            ping: None,
            reads: 0,
            changes: 0,
        }
    }

    fn run_until(&mut self, end: Duration) {
        while self.now < end {
            self.read();
            self.run_pings();
            self.reads += 1;
        }
    }

    fn read(&mut self) {
        let is_far = self.luck.below(100) < FAR_PERCENT;
        let is_open = self
            .guard
            .is_none_or(|guard| guard.state() == GuardState::Open);
        if is_far && is_open {
            self.read_far();
        } else {
            self.read_backing();
        }
    }

    fn read_far(&mut self) {
        let took = FAR + self.injected.at(self.now, &mut self.luck);
        let Some(guard) = &mut self.guard else {
            self.now += took;
            return;
        };
        let limit = guard.time_limit();
        self.now += took.min(limit);
        if took <= limit {
            self.changes += u64::from(guard.answered(took).is_some());
            return;
        }
        self.changes += u64::from(guard.timed_out(limit).is_some());
        self.read_backing();
    }

    fn read_backing(&mut self) {
        self.now += self.backing;
        if let Some(guard) = &mut self.guard {
            self.changes += u64::from(guard.missed(self.backing).is_some());
        }
    }

    /// Sends the pings that are due and takes their answers, up to now.
    fn run_pings(&mut self) {
        let Some(guard) = &mut self.guard else {
            return;
        };
        loop {
            match (self.ping, guard.ping_interval()) {
                (Some((back, took)), _) if back <= self.now => {
                    let change = match took < guard.time_limit() {
                        true => guard.pinged(took),
                        false => guard.ping_timed_out(took),
                    };
                    self.changes += u64::from(change.is_some());
                    self.ping = None;
                }
                (None, Some(interval)) if self.next_ping <= self.now => {
                    let delay = self.injected.at(self.next_ping, &mut self.luck);
                    let took = (FAR + delay).min(guard.time_limit());
                    self.ping = Some((self.next_ping + took, took));
                    self.next_ping += interval.max(took);
                }
                (None, None) => {
                    self.next_ping = self.now;
                    return;
                }
                _ => return,
            }
        }
    }
}

/// Reads per second, relative to those of a reader that borrows nothing.
fn relative_rate(rule: ReaderRule, backing: Duration, injected: InjectedDelay) -> f64 {
    let mut reader = Reader::new(rule, backing, injected);
    reader.run_until(WARM_UP);
    let (before, began) = (reader.reads, reader.now);
    reader.run_until(WARM_UP + MEASURED);
    let reads = (reader.reads - before) as f64;
    reads * backing.as_secs_f64() / (reader.now - began).as_secs_f64()
}

const RELATIVE: ReaderRule = ReaderRule::Guarded(GuardPolicy::Relative);
const PUMA: ReaderRule = ReaderRule::Guarded(GuardPolicy::Puma);

const NVME: Duration = Duration::from_micros(100);
const SSD: Duration = Duration::from_millis(1);
const HARD_DISK: Duration = Duration::from_millis(8);
const BACKINGS: [Duration; 3] = [NVME, SSD, HARD_DISK];

const HALF: InjectedDelay = InjectedDelay::Constant(Duration::from_micros(500));
const ONE: InjectedDelay = InjectedDelay::Constant(Duration::from_millis(1));
const TWO: InjectedDelay = InjectedDelay::Constant(Duration::from_millis(2));
const OUTLIERS: InjectedDelay = InjectedDelay::OneIn(100, Duration::from_millis(50));
const BURSTS: InjectedDelay = InjectedDelay::Burst(Duration::from_millis(20));

/// What the relative guard is designed to reach, for each injected delay and each backing.
const DESIGNED: [(InjectedDelay, [f64; 3]); 6] = [
    (InjectedDelay::Nothing, [1.82, 2.41, 2.49]),
    (HALF, [1.00, 1.40, 2.28]),
    (ONE, [1.00, 1.00, 2.10]),
    (TWO, [1.00, 1.00, 1.82]),
    (OUTLIERS, [1.74, 2.37, 2.45]),
    (BURSTS, [1.63, 2.12, 2.23]),
];

/// How far below its figure a cell may stay.
const SHORTFALL_MAX: f64 = 0.05;

/// How far PUMA's rate may lie above that of the relative guard: the last digit.
const PUMA_LEAD_MAX: f64 = 0.01;

#[test]
fn a_guarded_reader_never_loses_and_gains_what_it_can() {
    println!("reads per second relative to no lending: always / PUMA / relative");
    for (injected, designed) in DESIGNED {
        for (backing, designed) in BACKINGS.into_iter().zip(designed) {
            let always = relative_rate(ReaderRule::Always, backing, injected);
            let puma = relative_rate(PUMA, backing, injected);
            let relative = relative_rate(RELATIVE, backing, injected);
            println!("{backing:>6?} {injected:?}: {always:.2} / {puma:.2} / {relative:.2}");
            let cell = format!("{injected:?} before {backing:?}: {puma} / {relative}");
            assert!(relative >= 0.95, "{cell}");
            assert!(relative >= designed - SHORTFALL_MAX, "{cell}");
            assert!(puma <= relative + PUMA_LEAD_MAX, "{cell}");
        }
    }
}

#[test]
fn puma_loses_before_a_quick_backing_and_gives_away_before_a_slow_one() {
    for injected in [HALF, ONE, OUTLIERS] {
        let rate = relative_rate(PUMA, NVME, injected);
        assert!(rate < 0.5, "{injected:?}: {rate}");
    }
    for injected in [TWO, BURSTS] {
        let puma = relative_rate(PUMA, HARD_DISK, injected);
        let always = relative_rate(ReaderRule::Always, HARD_DISK, injected);
        assert!(
            always > 1.5 && puma < 1.1,
            "{injected:?}: {always} / {puma}"
        );
    }
}

#[test]
fn one_late_answer_in_a_hundred_never_shuts_the_guard() {
    for backing in BACKINGS {
        let mut reader = Reader::new(RELATIVE, backing, OUTLIERS);
        reader.run_until(WARM_UP + MEASURED);
        assert_eq!(reader.changes, 0, "{backing:?}");
    }
}

#[test]
fn a_lender_that_answers_some_requests_late_costs_nothing() {
    for one_in in [2, 3, 4, 5, 8, 20] {
        let injected = InjectedDelay::OneIn(one_in, Duration::from_millis(20));
        for backing in BACKINGS {
            let rate = relative_rate(RELATIVE, backing, injected);
            assert!(rate >= 0.95, "{injected:?} before {backing:?}: {rate}");
        }
    }
}
