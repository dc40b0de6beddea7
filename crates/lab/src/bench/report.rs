//! The common form of every bench: rows of our figures beside the peer's, each with its goal.

use std::fmt;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::chart::Chart;
use super::machine::MachineFacts;

/// The results of one bench.
#[derive(Debug, Default)]
pub(super) struct BenchReport {
    /// Its figures.
    pub(super) rows: Vec<BenchRow>,
    /// Curves for the plot, beside the rows' ratios.
    pub(super) charts: Vec<Chart>,
    /// What a reader must know: how it was measured, and what was left out and why.
    pub(super) notes: Vec<String>,
    /// What could not be measured, and why.
    pub(super) failures: Vec<String>,
}

impl BenchReport {
    /// Returns whether no row misses its goal.
    pub(super) fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.holds() != Some(false))
    }

    /// Keeps what was measured before one part failed: others go on.
    pub(super) fn record_failure<E: fmt::Display>(&mut self, part: &str, result: Result<(), E>) {
        if let Err(error) = result {
            self.failures.push(format!("{part}: {error}"));
        }
    }

    /// The machine-readable form, described in `docs/benches.md`.
    pub(super) fn json(&self, machine: &MachineFacts) -> serde_json::Value {
        serde_json::json!({
            "version": 1,
            "machine": machine,
            "rows": self.rows,
            "charts": self.charts,
            "notes": self.notes,
            "failures": self.failures,
        })
    }

    /// The form for people.
    pub(super) fn text(&self, machine: &MachineFacts) -> String {
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        let failures = self.failures.iter();
        let failures: String = failures
            .map(|failure| format!("could not be measured: {failure}\n"))
            .collect();
        format!("{machine}\n{}\n{notes}{failures}", self.table())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["figure", "unit", "ours", "peer", "ratio", "goal", "holds"]);
        for column in 2..=4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.add_rows(self.rows.iter().map(BenchRow::cells));
        table
    }
}

/// One figure: ours, the peer's, and the goal.
#[derive(Clone, Debug)]
pub(super) struct BenchRow {
    name: String,
    unit: &'static str,
    ours: RoundsSummary,
    peer: Option<RoundsSummary>,
    goal: Option<Goal>,
}

impl BenchRow {
    /// A row with our own figure.
    pub(super) fn new(
        name: impl Into<String>,
        unit: &'static str,
        ours: RoundsSummary,
    ) -> BenchRow {
        BenchRow {
            name: name.into(),
            unit,
            ours,
            peer: None,
            goal: None,
        }
    }

    /// Adds the same figure of the peer or the baseline.
    pub(super) fn against(mut self, peer: RoundsSummary) -> BenchRow {
        self.peer = Some(peer);
        self
    }

    /// Adds the goal.
    pub(super) fn goal(mut self, goal: Goal) -> BenchRow {
        self.goal = Some(goal);
        self
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Ours ÷ the peer's, if there is a peer and its figure is not zero.
    pub(super) fn ratio(&self) -> Option<f64> {
        let peer = self.peer?.median;
        (peer != 0.0).then(|| self.ours.median / peer)
    }

    /// The goal, if it is one of the ratio.
    pub(super) fn ratio_goal(&self) -> Option<f64> {
        match self.goal? {
            Goal::RatioAtLeast(bound) | Goal::RatioAtMost(bound) => Some(bound),
            Goal::OursAtLeast(_) | Goal::OursAtMost(_) => None,
        }
    }

    /// Returns whether the goal is reached. Nothing if there is no goal, or no peer to compare with.
    pub(super) fn holds(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::RatioAtLeast(bound) => self.ratio()? >= bound,
            Goal::RatioAtMost(bound) => self.ratio()? <= bound,
            Goal::OursAtLeast(bound) => self.ours.median >= bound,
            Goal::OursAtMost(bound) => self.ours.median <= bound,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        let or_empty = |text: Option<String>| text.unwrap_or_default();
        vec![
            Cell::new(&self.name),
            Cell::new(self.unit),
            Cell::new(self.ours.to_string()),
            Cell::new(or_empty(self.peer.map(|peer| peer.to_string()))),
            Cell::new(or_empty(self.ratio().map(|ratio| format!("{ratio:.2}")))),
            Cell::new(or_empty(self.goal.map(|goal| goal.to_string()))),
            match self.holds() {
                Some(true) => Cell::new("yes"),
                Some(false) => Cell::new("NO"),
                None => Cell::new(""),
            },
        ]
    }
}

/// `{name, unit, ours, peer, ratio, goal, holds, spread}`. What is absent is null.
impl Serialize for BenchRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct RowRange {
            ours: [f64; 2],
            peer: Option<[f64; 2]>,
            rounds: usize,
        }
        let spread = RowRange {
            ours: self.ours.range(),
            peer: self.peer.map(|peer| peer.range()),
            rounds: self.ours.rounds,
        };
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("unit", self.unit)?;
        map.serialize_entry("ours", &self.ours.median)?;
        map.serialize_entry("peer", &self.peer.map(|peer| peer.median))?;
        map.serialize_entry("ratio", &self.ratio())?;
        map.serialize_entry("goal", &self.goal.map(|goal| goal.to_string()))?;
        map.serialize_entry("holds", &self.holds())?;
        map.serialize_entry("spread", &spread)?;
        map.end()
    }
}

/// "No worse" as a ratio: two runs of the same program differ by as much.
pub(super) const NO_WORSE: f64 = 1.05;

/// A goal of the ratio or of our own figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// Ours ÷ the peer's is at least this.
    RatioAtLeast(f64),
    /// Ours ÷ the peer's is at most this.
    RatioAtMost(f64),
    /// Our figure is at least this, in the row's unit.
    OursAtLeast(f64),
    /// Our figure is at most this, in the row's unit.
    OursAtMost(f64),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::RatioAtLeast(bound) => write!(f, "ratio ≥ {}", rounded(*bound)),
            Goal::RatioAtMost(bound) => write!(f, "ratio ≤ {}", rounded(*bound)),
            Goal::OursAtLeast(bound) => write!(f, "ours ≥ {bound}"),
            Goal::OursAtMost(bound) => write!(f, "ours ≤ {bound}"),
        }
    }
}

fn rounded(bound: f64) -> f64 {
    (bound * 1000.0).round() / 1000.0
}

/// The rounds of one measurement: their median and how far they lay apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundsSummary {
    /// The middle round.
    pub(super) median: f64,
    /// The smallest.
    pub(super) least: f64,
    /// The largest.
    pub(super) most: f64,
    /// How many there were.
    pub(super) rounds: usize,
}

impl RoundsSummary {
    /// A figure that was counted once and has no spread.
    pub(super) fn once(figure: f64) -> RoundsSummary {
        RoundsSummary::of(&[figure])
    }

    /// A summary of the rounds. It is not a number if there was none.
    pub(super) fn of(rounds: &[f64]) -> RoundsSummary {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
        let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
        RoundsSummary {
            median: (at(low) + at(high)) / 2.0,
            least: at(0),
            most: at(sorted.len().saturating_sub(1)),
            rounds: sorted.len(),
        }
    }

    fn range(&self) -> [f64; 2] {
        [self.least, self.most]
    }
}

/// The median. If there were several rounds, the larger distance to an end follows, in per cent.
impl fmt::Display for RoundsSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figure(self.median))?;
        if self.rounds > 1 && self.median != 0.0 {
            let apart = (self.most - self.median).max(self.median - self.least);
            write!(f, " ±{:.0}%", 100.0 * apart / self.median.abs())?;
        }
        Ok(())
    }
}

/// Writes a figure with three or four significant digits.
pub(super) fn figure(number: f64) -> String {
    let digits = match number.abs() {
        n if n >= 1000.0 => return grouped(number.round() as i64),
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 0.1 || n == 0.0 => 2,
        _ => 4,
    };
    format!("{number:.digits$}")
}

fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(RoundsSummary::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(RoundsSummary::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        let apart = RoundsSummary::of(&[90.0, 100.0, 120.0]);
        assert_eq!((apart.least, apart.most), (90.0, 120.0));
        assert_eq!(apart.to_string(), "100 ±20%");
    }

    #[test]
    fn goals_bind_the_side_they_name() {
        let row = |goal| {
            BenchRow::new("r", "ms", RoundsSummary::once(60.0))
                .against(RoundsSummary::once(50.0))
                .goal(goal)
        };
        assert_eq!(row(Goal::RatioAtMost(1.2)).holds(), Some(true));
        assert_eq!(row(Goal::RatioAtLeast(1.3)).holds(), Some(false));
        assert_eq!(row(Goal::OursAtMost(59.0)).holds(), Some(false));
        let alone =
            BenchRow::new("r", "ms", RoundsSummary::once(1.0)).goal(Goal::RatioAtLeast(1.0));
        assert_eq!(alone.holds(), None, "no peer, nothing to hold");
    }

    #[test]
    fn rows_serialise_in_the_agreed_form() {
        let row = BenchRow::new("r", "ops/s", RoundsSummary::of(&[2.0, 4.0, 3.0]))
            .against(RoundsSummary::once(2.0))
            .goal(Goal::RatioAtLeast(1.3));
        let expected = serde_json::json!({
            "name": "r", "unit": "ops/s", "ours": 3.0, "peer": 2.0, "ratio": 1.5,
            "goal": "ratio ≥ 1.3", "holds": true,
            "spread": {"ours": [2.0, 4.0], "peer": [2.0, 2.0], "rounds": 3},
        });
        assert_eq!(serde_json::to_value(&row).ok(), Some(expected));
    }

    #[test]
    fn figures_keep_the_digits_that_mean_something() {
        for (number, text) in [
            (1_234_567.0, "1,234,567"),
            (999.4, "999"),
            (12.34, "12.3"),
            (1.0, "1.00"),
            (0.0123, "0.0123"),
            (0.0, "0.00"),
        ] {
            assert_eq!(figure(number), text);
        }
    }
}
