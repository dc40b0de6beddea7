//! SmarTmem's scenarios: how long programs run under each policy.

use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use super::report::Report;
use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{code, table};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "smartmem",
    reads: Reads::Scenarios,
    commands: &[Command::of("smartmem --unwatched --seed 0")],
    condense,
    template: include_str!("smartmem.template"),
    words,
    pictures,
};

/// The ways of shrinking in the order in which the command reports them.
const WAYS: [&str; 2] = ["active", "never"];

/// The runs whose times nobody's target can change.
const WITHOUT_TARGETS: [&str; 3] = ["greedy", "weights", "no tmem"];

/// The policies that come to the same as one before them: a pair is run once.
const PAIRS: [(&str, &str); 2] = [("greedy", "weights"), ("smart-alloc p=2", "two-level")];

const MACHINES: [&str; 3] = ["VM1", "VM2", "VM3"];

/// A stretch of a scenario, and what the tables call it.
struct Stretch {
    scenario: &'static str,
    name: &'static str,
    shown: &'static str,
}

const STRETCHES: [Stretch; 6] = [
    Stretch {
        scenario: "smartmem-1",
        name: "run 1",
        shown: "1, run 1",
    },
    Stretch {
        scenario: "smartmem-1",
        name: "run 2",
        shown: "1, run 2",
    },
    Stretch {
        scenario: "smartmem-2",
        name: "run 1",
        shown: "2",
    },
    Stretch {
        scenario: "smartmem-3",
        name: "run 1",
        shown: "3",
    },
    Stretch {
        scenario: "smartmem-usemem",
        name: "512 MiB",
        shown: "usemem, 512 MiB",
    },
    Stretch {
        scenario: "smartmem-usemem",
        name: "640 MiB",
        shown: "usemem, 640 MiB",
    },
];

/// A table for each way of shrinking and each stretch: a row for each policy, a column for each virtual machine.
fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let reports: Vec<Report> = played.read()?;
    let scenarios = reports.len() / WAYS.len();
    let mut tables = Vec::new();
    for (way, reports) in WAYS.into_iter().zip(reports.chunks(scenarios.max(1))) {
        for stretch in &STRETCHES {
            tables.push(times(way, stretch, reports)?);
        }
    }
    Ok(tables)
}

fn table_name(way: &str, stretch: &Stretch) -> String {
    format!("{}, {way}", stretch.shown)
}

fn times(way: &str, stretch: &Stretch, reports: &[Report]) -> Result<Table, ResultsError> {
    let is_of = |report: &&Report| {
        let first = report.runs.first();
        first.is_some_and(|run| run.scenario == stretch.scenario)
    };
    let report = reports.iter().find(is_of);
    let report = report.ok_or_else(|| ResultsError::Lacks(stretch.scenario.to_owned()))?;
    let columns: Result<Vec<&[Option<f64>]>, _> = MACHINES
        .iter()
        .map(|vm| report.figure(vm, stretch.name))
        .collect();
    let columns = columns?;
    let machines = MACHINES.map(str::to_owned).to_vec();
    let mut table = Table::of(&table_name(way, stretch), machines);
    for (number, run) in report.runs.iter().enumerate() {
        let values = columns
            .iter()
            .map(|column| column.get(number).copied().flatten());
        table.add(&[policy_of(&run.label)], values);
    }
    Ok(table)
}

fn policy_of(label: &str) -> &str {
    label.split(", ").next().unwrap_or(label)
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    Ok(vec![
        ("active", shown(record, WAYS[0])?),
        ("never", shown(record, WAYS[1])?),
    ])
}

/// Times by policy and stretch, three virtual machines a cell.
fn shown(record: &Record, way: &str) -> Result<String, ResultsError> {
    let tables = STRETCHES
        .iter()
        .map(|stretch| record.table(&table_name(way, stretch)));
    let tables: Result<Vec<&Table>, _> = tables.collect();
    let tables = tables?;
    let head = STRETCHES.iter().map(|stretch| stretch.shown.to_owned());
    let head: Vec<String> = ["policy".to_owned()].into_iter().chain(head).collect();
    let policies = tables.first().map_or(&[][..], |table| &table.rows);
    let mut rows = Vec::new();
    for (number, row) in policies.iter().enumerate() {
        let policy = row.name.join(" ");
        let is_told = WAYS[0] == way || !WITHOUT_TARGETS.contains(&policy.as_str());
        if !is_told || PAIRS.iter().any(|(_, second)| *second == policy) {
            continue;
        }
        let cells = tables
            .iter()
            .map(|table| table.rows.get(number).map_or(String::new(), times_of));
        rows.push([shown_policy(&policy)].into_iter().chain(cells).collect());
    }
    Ok(table(1, &head, &rows))
}

/// The policy's name, with that of the policy that comes to the same.
fn shown_policy(policy: &str) -> String {
    let pair = PAIRS.iter().find(|(first, _)| *first == policy);
    match pair {
        Some((first, second)) => format!("{}, {}", code(first), code(second)),
        None if policy == "no tmem" => policy.to_owned(),
        None => code(policy),
    }
}

fn times_of(row: &Row) -> String {
    let said = row.values.iter().map(|value| match value {
        Some(secs) if *secs >= 100.0 => format!("{secs:.0}"),
        Some(secs) => format!("{secs:.1}"),
        None => "–".to_owned(),
    });
    said.collect::<Vec<String>>().join(" ")
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let [active, never] = WAYS.map(|way| panels(record, way));
    Ok(vec![
        Picture {
            name: "smartmem",
            plot: Plot {
                title: "SmarTmem's scenarios, shrinking actively".to_owned(),
                about: "Running times of three virtual machines by policy: less is better"
                    .to_owned(),
                panels: active?,
            },
        },
        Picture {
            name: "smartmem-never",
            plot: Plot {
                title: "SmarTmem's scenarios, never shrinking, as in the paper".to_owned(),
                about: "Running times of three virtual machines by policy: less is better"
                    .to_owned(),
                panels: never?,
            },
        },
    ])
}

/// A panel for each stretch but the smaller of usemem's: a group for each policy, a bar for each virtual machine.
fn panels(record: &Record, way: &str) -> Result<Vec<Panel>, ResultsError> {
    let drawn = STRETCHES.iter().filter(|stretch| stretch.name != "512 MiB");
    let panel = |stretch: &Stretch| {
        let of = record.table(&table_name(way, stretch))?;
        let is_first = |row: &&Row| !PAIRS.iter().any(|(_, second)| row.name == [*second]);
        let group = |row: &Row| BarGroup {
            name: row.name.join(" "),
            values: row.values.clone(),
        };
        Ok(Panel::Bars(Bars {
            title: format!("scenario {}", stretch.shown),
            unit: "seconds",
            groups: of.rows.iter().filter(is_first).map(group).collect(),
            labels: of.columns.clone(),
        }))
    };
    drawn.map(panel).collect()
}
