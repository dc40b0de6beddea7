//! How soon the hit rate is back after half of the memory was released (Mortar's figure 14b).

use std::collections::VecDeque;

use sublet_sim::chance::{Chance, Zipf};
use sublet_store::BlockOrder;
use sublet_types::{Bytes, ReleaseMode};

use super::block_orders;
use super::chart::{Chart, Curve};
use super::error::BenchError;
use super::progress::Progress;
use super::report::{Goal, Measured, Report, Row};
use super::rig::Rig;
use super::shuffle::shuffled;

/// Skew of the paper's clients.
pub(super) const ALPHA: f64 = 0.8;

/// What is compared; the last is the paper's fast release, which the first must beat.
pub(super) const MODES: [(Way, &str); 4] = [
    (Way::Daemons(ReleaseMode::Ordered), "ordered"),
    (Way::Daemons(ReleaseMode::Fast), "fast"),
    (Way::Published(block_orders::scra), "scra"),
    (Way::Published(block_orders::random), "random"),
];

/// How memory is released.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// As the daemon does.
    Daemons(ReleaseMode),
    /// Whole blocks in an order that the paper has.
    Published(BlockOrder),
}

/// There is so much more to ask for than memory.
const ITEMS_TO_MEMORY: u64 = 2;
/// The hit rate counts as recovered at this share of what it was.
const RECOVERED: f64 = 0.9;
/// Ordered recovers so many times sooner than random.
const SOONER: f64 = 1.3;
/// Points of a curve.
const POINTS: usize = 200;

/// The hit rate of the last requests.
struct Window {
    hits: VecDeque<bool>,
    sum: usize,
    width: usize,
}

impl Window {
    fn new(width: usize) -> Window {
        Window {
            hits: VecDeque::with_capacity(width + 1),
            sum: 0,
            width,
        }
    }

    /// The rate with one more request, once there were enough of them.
    fn push(&mut self, hit: bool) -> Option<f64> {
        self.hits.push_back(hit);
        self.sum += usize::from(hit);
        if self.hits.len() > self.width {
            self.sum -= usize::from(self.hits.pop_front().unwrap_or(false));
        }
        (self.hits.len() == self.width).then(|| self.sum as f64 / self.width as f64)
    }
}

/// How one kind of release was got over.
struct Recovery {
    before: f64,
    /// Requests until the hit rate was back.
    requests: usize,
    curve: Curve,
}

/// Watches every kind of release.
pub(super) fn watch(
    memory: Bytes,
    value_bytes: usize,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let mut all = Vec::new();
    for (way, name) in MODES {
        progress.say(format!("recovery after {name} release"));
        all.push(recover(memory, value_bytes, way, name)?);
        progress.step();
    }
    report.rows.extend(rows(&all));
    let before = Measured::of(&all.iter().map(|one| one.before).collect::<Vec<_>>());
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

fn rows(all: &[Recovery]) -> Vec<Row> {
    let Some(random) = all.last() else {
        return Vec::new();
    };
    let needed = |one: &Recovery| Measured::once(one.requests as f64);
    let row = |one: &Recovery| {
        let name = format!("requests until recovered, {} beside random", one.curve.name);
        Row::new(name, "requests", needed(one)).against(needed(random))
    };
    let mut rows: Vec<Row> = all[..all.len() - 1].iter().map(row).collect();
    if let Some(ordered) = rows.first_mut() {
        *ordered = ordered.clone().goal(Goal::RatioAtMost(1.0 / SOONER));
    }
    rows
}

fn recover(
    memory: Bytes,
    value_bytes: usize,
    way: Way,
    name: &str,
) -> Result<Recovery, BenchError> {
    let mut rig = Rig::new(memory, value_bytes)?;
    let keys = rig.keys_in(memory * ITEMS_TO_MEMORY) as usize;
    let mut chance = Chance::seeded(2);
    let places = shuffled(keys, &mut chance);
    let zipf = Zipf::of(keys as u64, ALPHA);
    let mut ask = |rig: &mut Rig| -> Result<bool, BenchError> {
        let key = places[zipf.draw(&mut chance) as usize];
        let hit = rig.get(key);
        if !hit {
            rig.set(key)?;
        }
        Ok(hit)
    };
    let before = warmed(&mut rig, keys, &mut ask)?;
    let half = Bytes(rig.held().0 / 2);
    match way {
        Way::Daemons(mode) => rig.release(half, mode),
        Way::Published(order) => rig.release_by(order, half),
    };
    let mut window = Window::new(keys / 20);
    let (mut points, mut recovered) = (Vec::new(), None);
    let watched = 2 * keys;
    for request in 1..=watched {
        let Some(rate) = window.push(ask(&mut rig)?) else {
            continue;
        };
        if rate >= RECOVERED * before {
            recovered.get_or_insert(request);
        }
        if request.is_multiple_of((watched / POINTS).max(1)) {
            points.push((request as f64 / 1000.0, 100.0 * rate));
        }
    }
    Ok(Recovery {
        before,
        requests: recovered.unwrap_or(watched),
        curve: Curve {
            name: name.to_owned(),
            points,
        },
    })
}

/// Asks until the store is full and its eviction has seen every key's worth; the hit rate then.
fn warmed(
    rig: &mut Rig,
    keys: usize,
    ask: &mut impl FnMut(&mut Rig) -> Result<bool, BenchError>,
) -> Result<f64, BenchError> {
    const TURNS: usize = 10;
    let mut hits = 0;
    for request in 0..TURNS * keys {
        let counts = request >= (TURNS - 1) * keys;
        hits += usize::from(ask(rig)? && counts);
    }
    Ok(hits as f64 / keys as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets() {
        let mut window = Window::new(2);
        assert_eq!(window.push(true), None);
        assert_eq!(window.push(true), Some(1.0));
        assert_eq!(window.push(false), Some(0.5));
        assert_eq!(window.push(false), Some(0.0));
    }
}
