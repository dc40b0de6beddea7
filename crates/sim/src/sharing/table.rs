//! What policies came to on the sets, side by side.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

use super::Asked;
use crate::outcome::VERSION;
use crate::plot::{Bars, Group, Panel, Plot, PlotError};

/// Misses of several policies on several sets; the first policy is the yard-stick.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sharing {
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
    /// What was played: pages or items.
    pub of: &'static str,
    /// The arena, in percent of all that the traces name.
    pub percent: f64,
    /// What each tenant came to, by policy.
    pub tenants: Vec<Vec<Asked>>,
}

impl SharingRow {
    /// All tenants' misses for each request, by policy.
    pub(crate) fn miss_ratios(&self) -> Vec<f64> {
        let ratio = |tenants: &Vec<Asked>| {
            let sum = |of: fn(&Asked) -> u64| tenants.iter().map(of).sum::<u64>() as f64;
            sum(|asked| asked.misses) / sum(|asked| asked.gets).max(1.0)
        };
        self.tenants.iter().map(ratio).collect()
    }

    /// The same relative to the first policy's.
    pub fn ratios(&self) -> Vec<f64> {
        let ratios = self.miss_ratios();
        let first = ratios.first().copied().unwrap_or(1.0);
        ratios.iter().map(|ratio| ratio / first).collect()
    }
}

impl Sharing {
    /// Each policy's ratio to the first one's: the mean over all rows, and the worst of them.
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

    /// The form for people who would rather look: each policy's misses beside the first one's, a group of bars for each set.
    ///
    /// # Errors
    ///
    /// None that we know of: text in memory takes everything.
    pub fn draw(&self) -> Result<String, PlotError> {
        let bars = |row: &SharingRow| Group {
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
            let said = both.map(|(misses, ratio)| format!("{misses:.4} ({ratio:.3})"));
            table.add_row(fixed.into_iter().chain(said));
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
