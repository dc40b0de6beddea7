//! Traces side by side: what each variant missed on them.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::compare::{BLOCK_PAGES, FootprintShares, GUEST_MIN, ReplaySizes};
use crate::outcome::{RunOutcome, VERSION};
use crate::report::RunReport;

/// A tier of this many pages counts as large. The misses of smaller ones depend much on chance.
pub(crate) const LARGE_TIER: u64 = 4096;

/// Misses of several variants on several traces. The first variant is the yard-stick.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissComparison {
    /// The label of each variant.
    pub labels: Vec<String>,
    /// One row per trace and size of the client.
    pub rows: Vec<MissRow>,
}

/// One trace with one size of the client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissRow {
    /// The trace.
    pub trace: String,
    /// The client's memory, as a share of the trace's footprint.
    pub client: f64,
    /// The tier, as a share of the same.
    pub tier: f64,
    /// The sizes that these shares come to, if they are known.
    #[serde(flatten)]
    pub sizes: Option<ReplaySizes>,
    /// Pages asked of the tier. All variants are asked for the same.
    pub gets: u64,
    /// How many of them each variant did not have.
    pub misses: Vec<u64>,
}

impl MissRow {
    /// Returns whether the tier is known to be large.
    fn is_large(&self) -> bool {
        self.sizes
            .is_some_and(|sizes| sizes.tier_pages >= LARGE_TIER)
    }

    /// Misses relative to those of the yard-stick.
    pub fn ratios(&self) -> Vec<f64> {
        let first = self.misses.first().copied().unwrap_or(0);
        let ratio = |misses: &u64| match *misses == first {
            true => 1.0,
            false => *misses as f64 / first.max(1) as f64,
        };
        self.misses.iter().map(ratio).collect()
    }
}

impl MissComparison {
    /// Adds the results of the variants on one trace.
    pub fn add(
        &mut self,
        trace: &str,
        shares: FootprintShares,
        sizes: ReplaySizes,
        runs: &[RunOutcome],
    ) {
        let gets = |run: &RunOutcome| run.vms.iter().map(|vm| vm.guest.tier_gets).sum::<u64>();
        let hits = |run: &RunOutcome| run.vms.iter().map(|vm| vm.guest.tier_hits).sum::<u64>();
        self.labels = runs.iter().map(|run| run.variant()).collect();
        self.rows.push(MissRow {
            trace: trace.rsplit('/').next().unwrap_or(trace).to_owned(),
            client: shares.guest,
            tier: shares.tier,
            sizes: Some(sizes),
            gets: runs.first().map_or(0, gets),
            misses: runs.iter().map(|run| gets(run) - hits(run)).collect(),
        });
    }

    /// Each variant's ratio to the yard-stick: the mean over all rows, and the worst row.
    pub fn means(&self) -> Vec<(f64, f64)> {
        self.means_of(&self.rows.iter().collect::<Vec<_>>())
    }

    fn means_of(&self, rows: &[&MissRow]) -> Vec<(f64, f64)> {
        let summary = |variant: usize| {
            let ratios = rows.iter().map(|row| row.ratios()[variant]);
            let worst = ratios.clone().fold(0.0, f64::max);
            (ratios.sum::<f64>() / rows.len().max(1) as f64, worst)
        };
        (0..self.labels.len()).map(summary).collect()
    }

    /// The rows of large tiers.
    fn large(&self) -> Vec<&MissRow> {
        self.rows.iter().filter(|row| row.is_large()).collect()
    }

    /// The machine-readable form: the misses, and every run behind them.
    pub fn json(&self, reports: &[RunReport]) -> Value {
        let (means, large) = (self.means(), self.large());
        let means_of_large = self.means_of(&large);
        serde_json::json!({
            "version": VERSION,
            "labels": self.labels,
            "rows": self.rows,
            "mean_ratios": means.iter().map(|mean| mean.0).collect::<Vec<f64>>(),
            "worst_ratios": means.iter().map(|mean| mean.1).collect::<Vec<f64>>(),
            "large_tiers": {
                "pages_at_least": LARGE_TIER,
                "rows": large.len(),
                "mean_ratios": means_of_large.iter().map(|mean| mean.0).collect::<Vec<f64>>(),
                "worst_ratios": means_of_large.iter().map(|mean| mean.1).collect::<Vec<f64>>(),
            },
            "reports": reports.iter().map(RunReport::json).collect::<Vec<Value>>(),
        })
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let table = self.table("gets");
        let sizes = format!(
            "In brackets: pages. A tier has whole blocks of {BLOCK_PAGES}, one at least; a client has {GUEST_MIN} at least."
        );
        format!("Misses, and how they compare with the first column's\n{table}\n{sizes}\n")
    }

    /// One row per trace and size of the client, then the mean and the worst. It adds those of large tiers alone if
    /// there are others. `gets_title` is the title of the gets.
    pub fn table(&self, gets_title: &str) -> Table {
        let mut table = Table::new();
        let fixed = ["trace", "client", "tier", gets_title].map(str::to_owned);
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(fixed.into_iter().chain(self.labels.iter().cloned()));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.rows.iter().for_each(|row| {
            table.add_row(cells(row));
        });
        add_means(&mut table, "", &self.means());
        let large = self.large();
        if !large.is_empty() && large.len() < self.rows.len() {
            let of = format!(", tiers from {LARGE_TIER} pages on");
            add_means(&mut table, &of, &self.means_of(&large));
        }
        table
    }
}

/// Adds the mean and the worst of some rows. `of` names the rows.
fn add_means(table: &mut Table, of: &str, means: &[(f64, f64)]) {
    let row = |name: &str, changes: Vec<String>| {
        let blank = [format!("{name}{of}")].into_iter();
        let blank = blank.chain(["", "", ""].map(str::to_owned));
        blank.chain(changes).collect::<Vec<String>>()
    };
    let mean = means.iter().map(|(mean, _)| change(*mean));
    table.add_row(row("mean", mean.collect()));
    let worst = means.iter().map(|(_, worst)| change(*worst));
    table.add_row(row("worst", worst.collect()));
}

fn cells(row: &MissRow) -> Vec<String> {
    let percent = |share: f64, pages: Option<u64>| {
        let pages = pages.map_or(String::new(), |pages| format!(" ({pages})"));
        format!("{}%{pages}", (share * 1000.0).round() / 10.0)
    };
    let fixed = [
        row.trace.clone(),
        percent(row.client, row.sizes.map(|sizes| sizes.client_pages)),
        percent(row.tier, row.sizes.map(|sizes| sizes.tier_pages)),
        row.gets.to_string(),
    ];
    let misses = row.misses.iter().zip(row.ratios()).enumerate();
    let cells = misses.map(|(variant, (misses, ratio))| match variant {
        0 => misses.to_string(),
        _ => format!("{misses} ({})", change(ratio)),
    });
    fixed.into_iter().chain(cells).collect()
}

/// A ratio as a change: 0.92 is -8.0%.
fn change(ratio: f64) -> String {
    format!("{:+.1}%", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses() -> MissComparison {
        let row = |trace: &str, tier_pages: u64, misses: [u64; 2]| MissRow {
            trace: trace.into(),
            client: 0.02,
            tier: 0.1,
            sizes: Some(ReplaySizes {
                client_pages: 64,
                tier_pages,
            }),
            gets: 1000,
            misses: misses.to_vec(),
        };
        MissComparison {
            labels: vec!["lru".into(), "x-s3h".into()],
            rows: vec![row("a", 4096, [100, 90]), row("b", 3584, [200, 210])],
        }
    }

    #[test]
    fn the_mean_is_of_ratios_and_the_worst_is_told() {
        let means = misses().means();
        assert_eq!(means[0], (1.0, 1.0));
        assert!((means[1].0 - 0.975).abs() < 1e-9 && (means[1].1 - 1.05).abs() < 1e-9);
        let text = misses().text();
        assert!(
            text.contains("90 (-10.0%)") && text.contains("+5.0%"),
            "{text}"
        );
        assert!(text.contains("-2.5%"), "{text}");
    }

    #[test]
    fn large_tiers_have_a_mean_of_their_own_where_there_are_others() {
        let misses = misses();
        let text = misses.text();
        assert!(text.contains("10% (3584)"), "{text}");
        let of_large = text.lines().filter(|line| line.contains("from 4096 pages"));
        assert!(
            of_large.clone().count() == 2 && of_large.clone().all(|line| line.contains("-10.0%"))
        );
        assert_eq!(misses.json(&[])["large_tiers"]["rows"], 1);
        let all_large = MissComparison {
            rows: misses.rows[..1].to_vec(),
            ..misses
        };
        assert!(!all_large.text().contains("from 4096 pages"));
    }
}
