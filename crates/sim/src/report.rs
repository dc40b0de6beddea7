//! Runs side by side: tables for people, JSON for programs.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::outcome::{NO_TIER, RunOutcome, VERSION, VmOutcome};
use crate::virtual_time::VirtualDuration;

/// Runs of one scenario. The others are compared with the first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// The runs.
    pub runs: Vec<RunOutcome>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// One figure of a run, beside that of the first run and, if there is one, that of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportRow {
    /// The virtual machine.
    pub vm: String,
    /// What is measured: a stretch's running time, a share, or a mean.
    pub figure: String,
    /// The unit.
    pub unit: &'static str,
    /// The value of each run, if the run has it.
    pub values: Vec<Option<f64>>,
}

impl ReportRow {
    /// The values divided by those of a run.
    pub(crate) fn ratios_to(&self, run: usize) -> Vec<Option<f64>> {
        let base = self.values.get(run).copied().flatten();
        let base = base.filter(|base| *base != 0.0);
        let ratio = |value: &Option<f64>| Some((*value)? / base?);
        self.values.iter().map(ratio).collect()
    }
}

/// Up to this many virtual machines get their own rows. More of them get rows for all together only.
const VMS_SHOWN: usize = 16;

impl RunReport {
    /// A report of these runs. If they differ in their eviction, each label names it, even the usual one.
    pub fn of(mut runs: Vec<RunOutcome>) -> RunReport {
        let has_several = runs
            .windows(2)
            .any(|pair| pair[0].eviction != pair[1].eviction);
        if has_several {
            runs.iter_mut().for_each(RunOutcome::name_eviction);
        }
        RunReport {
            runs,
            notes: Vec::new(),
        }
    }

    /// Returns whether no judge found anything in any run.
    pub fn holds(&self) -> bool {
        self.runs.iter().all(|run| run.wrongs == 0)
    }

    /// The machine-readable form: `{"version":1,"runs":[…],"rows":[…],"notes":[…]}`.
    pub fn json(&self) -> Value {
        serde_json::json!({
            "version": VERSION,
            "runs": self.runs,
            "rows": self.rows(),
            "notes": self.notes,
        })
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(first) = self.runs.first() {
            text.push_str(&format!("{}, seed {}\n", first.scenario, first.seed));
        }
        text.push_str(&format!("{}\n", self.table()));
        if let Some(table) = self.times_to_no_tier() {
            text.push_str(&format!("Running times, in those of {NO_TIER}:\n{table}\n"));
        }
        for run in self.runs.iter().filter(|run| run.wrongs > 0) {
            text.push_str(&format!(
                "{}: the judges found {} wrongs\n",
                run.label, run.wrongs
            ));
            run.verdicts
                .iter()
                .for_each(|verdict| text.push_str(&format!("  {verdict}\n")));
        }
        self.notes
            .iter()
            .for_each(|note| text.push_str(&format!("{note}\n")));
        text
    }

    /// All figures: running times, then what was hit, then what it cost.
    pub fn rows(&self) -> Vec<ReportRow> {
        let Some(first) = self.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        if first.vms.len() <= VMS_SHOWN {
            for (number, vm) in first.vms.iter().enumerate() {
                rows.extend(self.times_of(number, vm));
            }
            for (number, vm) in first.vms.iter().enumerate() {
                rows.extend(self.figures_of(number, vm));
            }
        }
        rows.extend(self.whole());
        rows
    }

    fn row(
        &self,
        vm: &str,
        figure: &str,
        unit: &'static str,
        value: impl Fn(&RunOutcome) -> Option<f64>,
    ) -> ReportRow {
        ReportRow {
            vm: vm.to_owned(),
            figure: figure.to_owned(),
            unit,
            values: self.runs.iter().map(value).collect(),
        }
    }

    /// One row per stretch that any run has, in the order in which they come.
    fn times_of(&self, number: usize, vm: &VmOutcome) -> Vec<ReportRow> {
        let mut names: Vec<&str> = Vec::new();
        let machines = self.runs.iter().filter_map(|run| run.vms.get(number));
        for stretch in machines.flat_map(|vm| &vm.stretches) {
            if !names.contains(&stretch.name.as_str()) {
                names.push(&stretch.name);
            }
        }
        let secs = |run: &RunOutcome, name: &str| {
            let mut stretches = run.vms.get(number)?.stretches.iter();
            stretches.find(|stretch| stretch.name == name)?.secs()
        };
        let row = |name: &&str| self.row(&vm.name, name, "s", |run| secs(run, name));
        let rows = names.iter().map(row);
        rows.filter(|row| row.values.iter().any(Option::is_some))
            .collect()
    }

    fn figures_of(&self, number: usize, vm: &VmOutcome) -> Vec<ReportRow> {
        let of = |figure: &str, unit, value: &dyn Fn(&VmOutcome) -> Option<f64>| {
            self.row(&vm.name, figure, unit, |run| value(run.vms.get(number)?))
        };
        let rows = [
            of("tier hits", "% of gets", &|vm| {
                Some(vm.tier_hit_share() * 100.0)
            }),
            of("refused puts", "", &|vm| Some(vm.guest.puts_refused as f64)),
            of("disk reads", "pages", &|vm| {
                Some(vm.guest.disk_pages_read as f64)
            }),
            of("fragmented windows", "", &|vm| {
                Some(vm.guest.windows_fragmented as f64)
            }),
            of("mean response", "ms", &|vm| {
                Some(vm.response_secs()? * 1000.0)
            }),
            of("throughput", "MiB/s", &|vm| {
                vm.response_secs()?;
                Some(vm.throughput()? / 256.0)
            }),
        ];
        let tells = |row: &ReportRow| row.values.iter().flatten().any(|value| *value != 0.0);
        rows.into_iter().filter(tells).collect()
    }

    fn whole(&self) -> Vec<ReportRow> {
        let sum =
            |run: &RunOutcome, part: fn(&VmOutcome) -> u64| run.vms.iter().map(part).sum::<u64>();
        let share = |run: &RunOutcome| {
            let (hits, gets) = (
                sum(run, |vm| vm.guest.tier_hits),
                sum(run, |vm| vm.guest.tier_gets),
            );
            (gets > 0).then(|| hits as f64 / gets as f64 * 100.0)
        };
        vec![
            self.row("all", "end", "s", |run| Some(run.secs)),
            self.row("all", "tier hits", "% of gets", share),
            self.row("all", "disk reads", "pages", |run| {
                Some(run.disk.pages_read as f64)
            }),
            self.row("all", "disk writes", "pages", |run| {
                Some(run.disk.pages_written as f64)
            }),
        ]
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let labels = self.runs.iter().map(|run| run.label.clone());
        let fixed = ["vm", "figure", "unit"].map(str::to_owned);
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(fixed.into_iter().chain(labels));
        for column in table.column_iter_mut().skip(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in self.rows() {
            let texts = [row.vm.clone(), row.figure.clone(), row.unit.to_owned()];
            let values = row.values.iter().zip(row.ratios_to(0));
            let cells = values.enumerate().map(|(run, (value, ratio))| {
                let text = value.map(|value| rounded(value, row.unit));
                cell(text, ratio.filter(|_| run > 0))
            });
            table.add_row(texts.into_iter().chain(cells).map(Cell::new));
        }
        table
    }
}

impl RunReport {
    /// Running times as ratios to those of the run without a tier, if there is one beside others.
    fn times_to_no_tier(&self) -> Option<Table> {
        let base = self.runs.iter().position(|run| run.label == NO_TIER);
        let base = base.filter(|_| self.runs.len() > 2)?;
        let is_shown = |run: &usize| *run != base;
        let shown: Vec<usize> = (0..self.runs.len()).filter(is_shown).collect();
        let mut table = Table::new();
        let labels = shown.iter().map(|run| self.runs[*run].label.clone());
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(
                ["vm", "figure"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(labels),
            );
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in self.rows().iter().filter(|row| row.unit == "s") {
            let ratios = row.ratios_to(base);
            let cells = shown.iter().map(|run| ratios[*run]);
            let cells =
                cells.map(|ratio| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")));
            let texts = [row.vm.clone(), row.figure.clone()];
            table.add_row(texts.into_iter().chain(cells));
        }
        Some(table)
    }
}

/// A value, followed in every run but the first by its ratio to the first.
fn cell(text: Option<String>, ratio: Option<f64>) -> String {
    match (text, ratio) {
        (None, _) => "–".to_owned(),
        (Some(text), Some(ratio)) => format!("{text} ({ratio:.2})"),
        (Some(text), None) => text,
    }
}

/// Rounds to three digits or a few more. Counts are whole.
fn rounded(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        _ if unit.is_empty() || unit == "pages" => 0,
        v if v >= 1000.0 => 0,
        v if v >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.digits$}")
}

impl RunReport {
    /// Adds a note on how long the runs lasted in virtual time, and how many events they had.
    pub fn add_scale_note(&mut self) {
        let note = |run: &RunOutcome| {
            let span = VirtualDuration((run.secs * 1e9) as u64);
            format!(
                "{}: {} events in {span} of virtual time",
                run.label, run.events
            )
        };
        self.notes.extend(self.runs.iter().map(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::TimedStretch;
    use crate::scenario::Scenario;
    use crate::virtual_time::VirtualInstant;

    fn run(label: &str, secs: f64) -> RunOutcome {
        let text = "name = \"s\"\nseed = 3\n[host]\nmemory = \"1MiB\"\n[[vm]]\nname = \"a\"\n\
                    memory = \"1MiB\"\n[vm.workload.zipf]\n";
        let scenario = Scenario::parse("s", text).expect("it is right");
        let mut outcome = RunOutcome::of(&scenario, VirtualInstant((secs * 1e9) as u64), 7);
        outcome.label = label.to_owned();
        let mut all = TimedStretch::begun("all", VirtualInstant::START);
        all.end(VirtualInstant((secs * 1e9) as u64));
        outcome.with_vms(vec![VmOutcome {
            name: "a".into(),
            stretches: vec![
                all,
                TimedStretch::begun("unfinished", VirtualInstant::START),
            ],
            guest: Default::default(),
            tier: Default::default(),
        }])
    }

    #[test]
    fn runs_stand_side_by_side_with_their_ratio_to_the_first() {
        let report = RunReport::of(vec![run("greedy", 20.0), run("mrc", 15.0)]);
        let rows = report.rows();
        assert_eq!(rows[0].values, [Some(20.0), Some(15.0)]);
        assert_eq!(rows[0].ratios_to(0), [Some(1.0), Some(0.75)]);
        let text = report.text();
        assert!(text.starts_with("s, seed 3\n| vm  | figure"), "{text}");
        assert!(text.contains("|   20.0 | 15.0 (0.75) |"), "{text}");
        assert!(!text.contains("unfinished"), "{text}");
    }

    #[test]
    fn running_times_are_told_in_those_without_a_tier_too() {
        let runs = [run("greedy", 15.0), run("mrc", 10.0), run(NO_TIER, 20.0)];
        let text = RunReport::of(runs.to_vec()).text();
        let (_, table) = text.split_once("in those of no tmem:\n").expect("a table");
        let row = table
            .lines()
            .find(|line| line.contains("| all "))
            .expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "a", "all", "0.75", "0.50", ""], "{table}");
        let alone = RunReport::of(vec![run("greedy", 15.0), run("mrc", 10.0)]);
        assert!(!alone.text().contains("in those of"));
    }

    #[test]
    fn json_has_a_version_and_every_run() {
        let report = RunReport::of(vec![run("greedy", 20.0)]);
        let json = report.json();
        assert_eq!(json["version"], 1);
        assert_eq!(json["runs"][0]["label"], "greedy");
        assert_eq!(json["runs"][0]["vms"][0]["stretches"][0]["to_secs"], 20.0);
        assert_eq!(json["rows"][0]["values"][0], 20.0);
    }

    #[test]
    fn what_the_judges_found_is_told() {
        let mut outcome = run("greedy", 1.0);
        outcome.wrongs = 2;
        outcome.verdicts.push("at 1 s, frames: two".into());
        let report = RunReport::of(vec![outcome]);
        assert!(!report.holds());
        assert!(
            report
                .text()
                .contains("greedy: the judges found 2 wrongs\n  at 1 s, frames: two")
        );
    }
}
