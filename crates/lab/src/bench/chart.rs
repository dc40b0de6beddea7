//! Curves of a report, beside its rows.

use serde::Serialize;

/// Curves over one pair of axes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Chart {
    /// What it shows.
    pub(super) title: String,
    /// The horizontal axis, with its unit.
    pub(super) x: String,
    /// The vertical axis, with its unit.
    pub(super) y: String,
    /// The curves.
    pub(super) curves: Vec<ChartCurve>,
}

/// One named curve.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartCurve {
    /// Its name in the legend.
    pub(super) name: String,
    /// Its points, from left to right.
    pub(super) points: Vec<(f64, f64)>,
}
