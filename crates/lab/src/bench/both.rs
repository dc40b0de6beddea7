//! A figure of both sides.

use super::report::{Measured, Row};

/// A figure of both sides, round by round.
#[derive(Clone, Debug, Default)]
pub(super) struct Both {
    /// Ours.
    pub(super) ours: Vec<f64>,
    /// The peer's.
    pub(super) peer: Vec<f64>,
}

impl Both {
    /// The row that shows it.
    pub(super) fn row(&self, name: impl Into<String>, unit: &'static str) -> Row {
        Row::new(name, unit, Measured::of(&self.ours)).against(Measured::of(&self.peer))
    }

    /// Adds a round's figure of one side.
    pub(super) fn push(&mut self, is_ours: bool, figure: f64) {
        match is_ours {
            true => self.ours.push(figure),
            false => self.peer.push(figure),
        }
    }
}
