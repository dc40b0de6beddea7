//! How soon the hit rate is back after half of the memory was released (Mortar's figure 14b).

use std::collections::VecDeque;

use sublet_sim::rng::{SimRng, Zipf};
use sublet_store::BlockOrder;
use sublet_types::{Bytes, ReleaseMode};

use super::bench_store::{BenchStore, KeyLookup};
use super::block_orders;
use super::chart::{Chart, ChartCurve};
use super::error::BenchError;
use super::progress::BenchProgress;
use super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::shuffle::shuffled;

/// Skew of the paper's clients.
pub(super) const ALPHA: f64 = 0.8;

/// The kinds of release to compare. The last is the paper's fast release, which the first must beat.
pub(super) const MODES: [(ReleaseMethod, &str); 4] = [
    (ReleaseMethod::Daemons(ReleaseMode::Ordered), "ordered"),
    (ReleaseMethod::Daemons(ReleaseMode::Fast), "fast"),
    (ReleaseMethod::Published(block_orders::scra), "scra"),
    (ReleaseMethod::Published(block_orders::random), "random"),
];

/// How memory is released.
#[derive(Clone, Copy)]
pub(super) enum ReleaseMethod {
    /// By the daemon's own method.
    Daemons(ReleaseMode),
    /// In whole blocks, in an order that the paper has.
    Published(BlockOrder),
}

/// The data to ask for is this many times the memory.
const ITEMS_TO_MEMORY: u64 = 2;
/// The hit rate counts as recovered at this share of what it was.
const RECOVERED: f64 = 0.9;
/// Ordered release must recover this many times sooner than random release.
const SOONER: f64 = 1.3;
/// Points of a curve.
const POINTS: usize = 200;

/// The hit rate of the last requests.
struct HitRateWindow {
    lookups: VecDeque<KeyLookup>,
    hits: usize,
    width: usize,
}

impl HitRateWindow {
    fn new(width: usize) -> HitRateWindow {
        HitRateWindow {
            lookups: VecDeque::with_capacity(width + 1),
            hits: 0,
            width,
        }
    }

    /// Adds a request. Returns the rate once the window is full.
    fn push(&mut self, lookup: KeyLookup) -> Option<f64> {
        self.lookups.push_back(lookup);
        self.hits += usize::from(lookup == KeyLookup::Hit);
        if self.lookups.len() > self.width {
            self.hits -= usize::from(self.lookups.pop_front() == Some(KeyLookup::Hit));
        }
        (self.lookups.len() == self.width).then(|| self.hits as f64 / self.width as f64)
    }
}

/// How the hit rate recovered from one kind of release.
struct ReleaseRecovery {
    before: f64,
    /// Requests until the hit rate was back.
    requests: usize,
    curve: ChartCurve,
}

/// Measures the recovery from every kind of release.
pub(super) fn watch(
    memory: Bytes,
    value_bytes: usize,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), BenchError> {
    let mut all = Vec::new();
    for (way, name) in MODES {
        progress.show_message(format!("recovery after {name} release"));
        all.push(recover(memory, value_bytes, way, name)?);
        progress.step();
    }
    report.rows.extend(rows(&all));
    let before = RoundsSummary::of(&all.iter().map(|one| one.before).collect::<Vec<_>>());
    report.notes.push(format!(
        "Recovery: {memory} of memory, {ITEMS_TO_MEMORY} times as much data, Zipf({ALPHA}); \
         hit rate before {:.1} %.",
        100.0 * before.median
    ));
    report.charts.push(Chart {
        title: "Hit rate after half of the memory was released (Mortar's figure 14b)".into(),
        x: "requests since the release, thousands".into(),
        y: "hit rate, %".into(),
        curves: all.into_iter().map(|one| one.curve).collect(),
    });
    Ok(())
}

fn rows(all: &[ReleaseRecovery]) -> Vec<BenchRow> {
    let Some(random) = all.last() else {
        return Vec::new();
    };
    let needed = |one: &ReleaseRecovery| RoundsSummary::once(one.requests as f64);
    let row = |one: &ReleaseRecovery| {
        let name = format!("requests until recovered, {} beside random", one.curve.name);
        BenchRow::new(name, "requests", needed(one)).against(needed(random))
    };
    let mut rows: Vec<BenchRow> = all[..all.len() - 1].iter().map(row).collect();
    if let Some(ordered) = rows.first_mut() {
        *ordered = ordered.clone().goal(Goal::RatioAtMost(1.0 / SOONER));
    }
    rows
}

fn recover(
    memory: Bytes,
    value_bytes: usize,
    way: ReleaseMethod,
    name: &str,
) -> Result<ReleaseRecovery, BenchError> {
    let mut bench_store = BenchStore::new(memory, value_bytes)?;
    let keys = bench_store.keys_in(memory * ITEMS_TO_MEMORY) as usize;
    let mut rng = SimRng::seeded(2);
    let places = shuffled(keys, &mut rng);
    let zipf = Zipf::of(keys as u64, ALPHA);
    let mut request = |bench_store: &mut BenchStore| -> Result<KeyLookup, BenchError> {
        let key = places[zipf.draw(&mut rng) as usize];
        let lookup = bench_store.get(key);
        if lookup == KeyLookup::Miss {
            bench_store.set(key)?;
        }
        Ok(lookup)
    };
    let before = warm_up(&mut bench_store, keys, &mut request)?;
    let half = Bytes(bench_store.held().0 / 2);
    match way {
        ReleaseMethod::Daemons(mode) => bench_store.release(half, mode),
        ReleaseMethod::Published(order) => bench_store.release_by(order, half),
    };
    let mut window = HitRateWindow::new(keys / 20);
    let (mut points, mut recovered) = (Vec::new(), None);
    let watched = 2 * keys;
    for number in 1..=watched {
        let Some(rate) = window.push(request(&mut bench_store)?) else {
            continue;
        };
        if rate >= RECOVERED * before {
            recovered.get_or_insert(number);
        }
        if number.is_multiple_of((watched / POINTS).max(1)) {
            points.push((number as f64 / 1000.0, 100.0 * rate));
        }
    }
    Ok(ReleaseRecovery {
        before,
        requests: recovered.unwrap_or(watched),
        curve: ChartCurve {
            name: name.to_owned(),
            points,
        },
    })
}

/// Makes requests until the store is full and its eviction has seen every key's worth. Returns the hit rate of the last
/// turn.
fn warm_up(
    bench_store: &mut BenchStore,
    keys: usize,
    request: &mut impl FnMut(&mut BenchStore) -> Result<KeyLookup, BenchError>,
) -> Result<f64, BenchError> {
    const TURNS: usize = 10;
    let mut hits = 0;
    for number in 0..TURNS * keys {
        let counts = number >= (TURNS - 1) * keys;
        hits += usize::from(request(bench_store)? == KeyLookup::Hit && counts);
    }
    Ok(hits as f64 / keys as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets() {
        let mut window = HitRateWindow::new(2);
        assert_eq!(window.push(KeyLookup::Hit), None);
        assert_eq!(window.push(KeyLookup::Hit), Some(1.0));
        assert_eq!(window.push(KeyLookup::Miss), Some(0.5));
        assert_eq!(window.push(KeyLookup::Miss), Some(0.0));
    }
}
