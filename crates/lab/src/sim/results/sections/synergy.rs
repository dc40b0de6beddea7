//! Synergy's table 8: eviction by file beside block LRU.

use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use super::report::Report;
use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{code, count, table};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "synergy",
    reads: Reads::Scenarios,
    commands: &[Command::of("synergy --seed 0")],
    condense,
    template: include_str!("synergy.template"),
    words,
    pictures,
};

const TABLE: &str = "figures";
const HITS: &str = "tier hits";
const FRAGMENTED: &str = "fragmented windows";
const THROUGHPUT: &str = "throughput";
const FIGURES: [&str; 4] = [HITS, "disk reads", FRAGMENTED, THROUGHPUT];

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let report: Report = played.read()?;
    let evictions = report.runs.iter().map(|run| run.eviction.clone()).collect();
    let mut table = Table::of(TABLE, evictions);
    for figure in FIGURES {
        table.add(&[figure], report.figure("web", figure)?.iter().copied());
    }
    Ok(vec![table])
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let of = record.table(TABLE)?;
    let head = ["figure".to_owned()].into_iter();
    let head: Vec<String> = head
        .chain(of.columns.iter().map(|name| code(name)))
        .collect();
    let rows: Vec<Vec<String>> = of.rows.iter().map(cells).collect();
    let value = |figure: &str, eviction: &str| of.value(&[figure], eviction);
    let hits = |eviction: &str| Ok::<_, ResultsError>(format!("{:.0} %", value(HITS, eviction)?));
    let torn = |eviction: &str| Ok::<_, ResultsError>(count(value(FRAGMENTED, eviction)?));
    let throughput = value(THROUGHPUT, "file")? / value(THROUGHPUT, "lru")?;
    Ok(vec![
        ("figures", table(1, &head, &rows)),
        ("throughput of file", format!("{throughput:.2}")),
        ("hits of file", hits("file")?),
        ("hits of lru", hits("lru")?),
        ("torn by lru", torn("lru")?),
        ("torn by file", torn("file")?),
    ])
}

fn cells(row: &Row) -> Vec<String> {
    let name = row.name.join(" ");
    let said = |value: &Option<f64>| match (value, name.as_str()) {
        (None, _) => "–".to_owned(),
        (Some(hits), HITS) => format!("{hits:.1} %"),
        (Some(speed), THROUGHPUT) => format!("{speed:.1}"),
        (Some(number), _) => count(*number),
    };
    let shown = match name.as_str() {
        "disk reads" => "disk reads, pages",
        THROUGHPUT => "throughput, MiB/s",
        other => other,
    };
    let values: Vec<String> = row.values.iter().map(said).collect();
    [shown.to_owned()].into_iter().chain(values).collect()
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let of = record.table(TABLE)?;
    let units = [
        (THROUGHPUT, "MiB/s"),
        (HITS, "% of gets"),
        (FRAGMENTED, "windows"),
    ];
    let panels = units.map(|(figure, unit)| panel(of, figure, unit));
    let panels: Result<Vec<Panel>, ResultsError> = panels.into_iter().collect();
    Ok(vec![Picture {
        name: "synergy",
        plot: Plot {
            title: "Synergy: a web server that reads whole files".to_owned(),
            about: "By eviction. Throughput and hits: more is better; fragmented windows: less is better".to_owned(),
            panels: panels?,
        },
    }])
}

/// A group for each eviction.
fn panel(of: &Table, figure: &str, unit: &'static str) -> Result<Panel, ResultsError> {
    let group = |eviction: &String| {
        Ok(BarGroup {
            name: eviction.clone(),
            values: vec![Some(of.value(&[figure], eviction)?)],
        })
    };
    let groups: Result<Vec<BarGroup>, ResultsError> = of.columns.iter().map(group).collect();
    Ok(Panel::Bars(Bars {
        title: figure.to_owned(),
        unit,
        groups: groups?,
        labels: vec![figure.to_owned()],
    }))
}
