//! The results of policies on the sets, side by side.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

use super::MissCounts;
use crate::outcome::VERSION;
use crate::plot::{BarGroup, Bars, Panel, Plot, PlotError};

/// Misses of several policies on several sets. The first policy is the yard-stick.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SharingComparison {
    /// The policies.
    pub policies: Vec<String>,
    /// A row for each set.
    pub rows: Vec<SharingRow>,
}

/// One set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharingRow {
    /// The set.
    pub set: String,
    /// What was replayed: pages or items.
    pub of: &'static str,
    /// The arena, in percent of all pages or keys that the traces name.
    pub percent: f64,
    /// The counts of each tenant, by policy.
    pub tenants: Vec<Vec<MissCounts>>,
}

impl SharingRow {
    /// All tenants' misses per request, by policy.
    pub(crate) fn miss_ratios(&self) -> Vec<f64> {
        let ratio = |tenants: &Vec<MissCounts>| {
            let sum = |of: fn(&MissCounts) -> u64| tenants.iter().map(of).sum::<u64>() as f64;
            sum(|counts| counts.misses) / sum(|counts| counts.gets).max(1.0)
        };
        self.tenants.iter().map(ratio).collect()
    }

    /// The same ratios relative to those of the first policy.
    pub fn ratios(&self) -> Vec<f64> {
        let ratios = self.miss_ratios();
        let first = ratios.first().copied().unwrap_or(1.0);
        ratios.iter().map(|ratio| ratio / first).collect()
    }
}

impl SharingComparison {
    /// Each policy's ratio to the first one's: the mean over all rows, and the worst row.
    pub fn means(&self) -> Vec<(f64, f64)> {
        let summary = |policy: usize| {
            let ratios = self.rows.iter().map(|row| row.ratios()[policy]);
            let worst = ratios.clone().fold(0.0, f64::max);
            (ratios.sum::<f64>() / self.rows.len().max(1) as f64, worst)
        };
        (0..self.policies.len()).map(summary).collect()
    }

    /// The machine-readable form.
    pub fn json(&self) -> Value {
        let means = self.means();
        serde_json::json!({
            "version": VERSION,
            "policies": self.policies,
            "rows": self.rows,
            "mean_ratios": means.iter().map(|mean| mean.0).collect::<Vec<f64>>(),
            "worst_ratios": means.iter().map(|mean| mean.1).collect::<Vec<f64>>(),
        })
    }

    /// The form as a plot: each policy's misses beside those of the first, with one group of bars per set.
    ///
    /// # Errors
    ///
    /// None that we know of: text in memory takes everything.
    pub fn draw(&self) -> Result<String, PlotError> {
        let bars = |row: &SharingRow| BarGroup {
            name: format!("{} {}", row.set, row.of),
            values: row.ratios().into_iter().map(Some).collect(),
        };
        let bars = Bars {
            title: "misses of all tenants".to_owned(),
            unit: "relative to the first",
            groups: self.rows.iter().map(bars).collect(),
            labels: self.policies.clone(),
        };
        let plot = Plot {
            title: "sublet-lab sim sharing".to_owned(),
            about: String::new(),
            panels: vec![Panel::Bars(bars)],
        };
        plot.draw()
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        let fixed = ["set", "of", "memory"].map(str::to_owned);
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(fixed.into_iter().chain(self.policies.iter().cloned()));
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in &self.rows {
            let fixed = [
                row.set.clone(),
                row.of.to_owned(),
                format!("{}%", row.percent),
            ];
            let both = row.miss_ratios().into_iter().zip(row.ratios());
            let cells = both.map(|(misses, ratio)| format!("{misses:.4} ({ratio:.3})"));
            table.add_row(fixed.into_iter().chain(cells));
        }
        for (name, figure) in [("mean", 0), ("worst", 1)] {
            let blank = [name, "", ""].map(str::to_owned);
            let means = self.means().into_iter().map(|(mean, worst)| match figure {
                0 => format!("{mean:.3}"),
                _ => format!("{worst:.3}"),
            });
            table.add_row(blank.into_iter().chain(means));
        }
        format!(
            "Misses of all tenants for each request, and how they compare with the first policy's\n{table}\n"
        )
    }
}
