//! A figure of both sides.

use super::report::{BenchRow, RoundsSummary};

/// A figure of both sides, round by round.
#[derive(Clone, Debug, Default)]
pub(super) struct PairedRounds {
    /// Ours.
    pub(super) ours: Vec<f64>,
    /// The peer's.
    pub(super) peer: Vec<f64>,
}

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The Sublet under test.
    Ours,
    /// What it is compared with.
    Peer,
}

impl PairedRounds {
    /// The row that shows it. A peer that has no such figure is left out.
    pub(super) fn row(&self, name: impl Into<String>, unit: &'static str) -> BenchRow {
        let row = BenchRow::new(name, unit, RoundsSummary::of(&self.ours));
        match self.peer.is_empty() {
            true => row,
            false => row.against(RoundsSummary::of(&self.peer)),
        }
    }

    /// Adds one round's figure of a side.
    pub(super) fn push(&mut self, side: Side, figure: f64) {
        match side {
            Side::Ours => self.ours.push(figure),
            Side::Peer => self.peer.push(figure),
        }
    }
}
