//! Scale: how long the simulator takes for a thousand tenants, and how much memory.

use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use super::report::Report;
use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{count, table};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "scale",
    reads: Reads::Scenarios,
    commands: &[
        Command::of("run thousand --unwatched"),
        Command::of("run thousand"),
    ],
    condense,
    template: include_str!("scale.template"),
    words,
    pictures,
};

const TABLE: &str = "figures";
const SECS: &str = "seconds";
const MEMORY: &str = "memory, MiB";
const EVENTS: &str = "events";

/// The rows, in the order of the commands.
const JUDGES: [&str; 2] = ["without judges", "with judges"];

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let mut table = Table::of(TABLE, [SECS, MEMORY, EVENTS].map(str::to_owned).to_vec());
    for (judges, played) in JUDGES.into_iter().zip(played) {
        let report: Report = played.read()?;
        let events = report.runs.first().map(|run| run.events as f64);
        let ran = &played.ran;
        table.add(&[judges], [Some(ran.secs), Some(ran.peak_mib), events]);
    }
    Ok(vec![table])
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let of = record.table(TABLE)?;
    let head = ["", SECS, MEMORY, EVENTS].map(str::to_owned);
    let row = |row: &Row| {
        let figures = row.values.iter().map(|value| match value {
            Some(value) if *value < 100.0 => format!("{value:.1}"),
            Some(value) => count(*value),
            None => "–".to_owned(),
        });
        row.name.iter().cloned().chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = of.rows.iter().map(row).collect();
    let events = of.value(&[JUDGES[0]], EVENTS)?;
    Ok(vec![
        ("figures", table(1, &head, &rows)),
        ("million events", format!("{:.0}", events / 1e6)),
    ])
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let of = record.table(TABLE)?;
    let panels = [SECS, MEMORY].map(|figure| panel(of, figure));
    let panels: Result<Vec<Panel>, ResultsError> = panels.into_iter().collect();
    Ok(vec![Picture {
        name: "scale",
        plot: Plot {
            title: "A thousand tenants, ten million operations".to_owned(),
            about: "One thread: less is better".to_owned(),
            panels: panels?,
        },
    }])
}

fn panel(of: &Table, figure: &'static str) -> Result<Panel, ResultsError> {
    let group = |judges: &str| {
        Ok(BarGroup {
            name: judges.to_owned(),
            values: vec![Some(of.value(&[judges], figure)?)],
        })
    };
    let groups: Result<Vec<BarGroup>, ResultsError> = JUDGES.into_iter().map(group).collect();
    Ok(Panel::Bars(Bars {
        title: figure.to_owned(),
        unit: figure,
        groups: groups?,
        labels: vec![figure.to_owned()],
    }))
}
