//! One node: what it needs from second to second, and what it has of whom.

use std::collections::BTreeMap;

use super::scene::{CAPACITY, PlacementScene, RESERVE};
use crate::rng::SimRng;

/// The mean length of a peak, in seconds.
const PEAK_MEAN: f64 = 60.0;

/// A peak needs between these parts of a node's memory in addition.
const PEAK_SHARES: [f64; 2] = [0.2, 0.7];

/// The largest step of what a node needs without a peak, in blocks a second.
const DRIFT: f64 = 32.0;

/// One node. All amounts are blocks.
#[derive(Debug)]
pub(super) struct Node {
    rng: SimRng,
    base: f64,
    peak: f64,
    peak_left: u32,
    /// What its guests needed a second ago.
    needed: u32,
    /// What it has lent.
    pub(super) lent: u32,
    /// What it has of each lender.
    pub(super) borrowed: BTreeMap<usize, u32>,
}

impl Node {
    pub(super) fn new(scene: PlacementScene, seed: u64, number: usize) -> Node {
        let mut rng = SimRng::of_part(seed, number as u64);
        let spread = 0.4 * (rng.share() - 0.5);
        Node {
            base: f64::from(CAPACITY) * (scene.base_share() + spread),
            peak: 0.0,
            peak_left: 0,
            needed: 0,
            lent: 0,
            borrowed: BTreeMap::new(),
            rng,
        }
    }

    /// A second passes for its guests.
    pub(super) fn pass(&mut self, scene: PlacementScene) {
        self.needed = self.need();
        let capacity = f64::from(CAPACITY);
        let drift = DRIFT * (2.0 * self.rng.share() - 1.0);
        self.base = (self.base + drift).clamp(0.2 * capacity, 0.95 * capacity);
        self.peak_left = self.peak_left.saturating_sub(1);
        let begins = self.rng.happens(scene.peak_probability());
        if self.peak_left == 0 {
            self.peak = 0.0;
            if begins {
                let [least, most] = PEAK_SHARES;
                self.peak = capacity * (least + (most - least) * self.rng.share());
                self.peak_left = 1 + (PEAK_MEAN * self.rng.exponential()) as u32;
            }
        }
    }

    /// What its guests need.
    pub(super) fn need(&self) -> u32 {
        (self.base + self.peak) as u32
    }

    /// What they need beyond its own memory.
    pub(super) fn need_beyond(&self) -> u32 {
        self.need().saturating_sub(CAPACITY)
    }

    /// What they have needed beyond its own memory since a second ago. Nobody gets anything sooner.
    pub(super) fn wanted_for_a_second(&self) -> u32 {
        self.need().min(self.needed).saturating_sub(CAPACITY)
    }

    /// What it has of others.
    pub(super) fn borrowed_in_all(&self) -> u32 {
        self.borrowed.values().sum()
    }

    /// What it wants beyond what it has.
    pub(super) fn wanted(&self) -> u32 {
        self.need_beyond().saturating_sub(self.borrowed_in_all())
    }

    /// What it would lend beyond what it has lent.
    pub(super) fn lendable(&self) -> u32 {
        if self.borrowed_in_all() > 0 {
            return 0;
        }
        CAPACITY.saturating_sub(self.need() + RESERVE + self.lent)
    }

    /// What it has lent and needs itself.
    pub(super) fn overlent(&self) -> u32 {
        let spare = CAPACITY.saturating_sub(self.need());
        self.lent.saturating_sub(spare)
    }
}
