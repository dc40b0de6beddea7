//! What `sublet-lab sim run`, `compare` and the papers' commands print, as far as sections read it.

use serde::Deserialize;

use crate::sim::results::error::ResultsError;

/// Runs side by side.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) runs: Vec<Run>,
    pub(super) rows: Vec<ReportRow>,
}

/// One run.
#[derive(Debug, Deserialize)]
pub(super) struct Run {
    pub(super) label: String,
    pub(super) scenario: String,
    pub(super) eviction: String,
    pub(super) events: u64,
    pub(super) wrongs: u64,
    pub(super) samples: Samples,
}

/// How many pages tenants could hold, over time.
#[derive(Debug, Deserialize)]
pub(super) struct Samples {
    pub(super) secs: Vec<f64>,
    pub(super) total: Vec<u64>,
}

/// One figure of all runs.
#[derive(Debug, Deserialize)]
pub(super) struct ReportRow {
    pub(super) vm: String,
    pub(super) figure: String,
    pub(super) values: Vec<Option<f64>>,
}

impl Report {
    /// The figure of a virtual machine, for each run.
    ///
    /// # Errors
    ///
    /// The report has none of this name.
    pub(super) fn figure(&self, vm: &str, figure: &str) -> Result<&[Option<f64>], ResultsError> {
        let row = self
            .rows
            .iter()
            .find(|row| row.vm == vm && row.figure == figure);
        let values = row.map(|row| row.values.as_slice());
        values.ok_or_else(|| ResultsError::Lacks(format!("{figure} of {vm}")))
    }
}
