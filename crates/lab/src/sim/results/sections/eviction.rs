//! Evictions on public traces: what a tier misses.

use serde::Deserialize;
use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{change, comparison, percent};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "eviction",
    reads: Reads::Traces,
    commands: &[Command::of(
        "compare --evictions lru,x-s3h,s3fifo,sieve --trace OLTP.lis.zst --trace P3.lis.zst --trace P6.lis.zst \
         --trace w106.trace.xz --trace cloudPhysicsIO.vscsi --seed 0",
    )],
    condense,
    template: include_str!("eviction.template"),
    words,
    pictures,
};

const TABLE: &str = "misses";
/// The column of what all evictions are asked.
const GETS: &str = "gets";
/// The eviction that others are compared with.
const YARD_STICK: &str = "lru";
const SHOWN: [&str; 4] = [YARD_STICK, "x-s3h", "s3fifo", "sieve"];

#[derive(Deserialize)]
struct Misses {
    labels: Vec<String>,
    rows: Vec<MissRow>,
}

#[derive(Deserialize)]
struct MissRow {
    trace: String,
    client: f64,
    gets: u64,
    misses: Vec<u64>,
}

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let misses: Misses = played.read()?;
    let eviction = |label: &String| label.rsplit(", ").next().unwrap_or(label).to_owned();
    let columns = [GETS.to_owned()].into_iter();
    let columns = columns.chain(misses.labels.iter().map(eviction)).collect();
    let mut table = Table::of(TABLE, columns);
    for row in &misses.rows {
        let counts = [row.gets].into_iter().chain(row.misses.iter().copied());
        let name = [stem(&row.trace), &percent(row.client)];
        table.add(&name, counts.map(|count| Some(count as f64)));
    }
    Ok(vec![table])
}

/// A trace's name without its format.
pub(super) fn stem(trace: &str) -> &str {
    trace.split('.').next().unwrap_or(trace)
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let misses = record.table(TABLE)?;
    let (mean, worst) = misses.mean_and_worst("x-s3h", YARD_STICK)?;
    let (s3fifo, s3fifo_worst) = misses.mean_and_worst("s3fifo", YARD_STICK)?;
    Ok(vec![
        (
            "misses",
            comparison(misses, &["trace", "client"], GETS, &SHOWN)?,
        ),
        ("x-s3h mean", change(mean)),
        ("x-s3h worst", change(worst)),
        ("s3fifo mean", change(s3fifo)),
        ("s3fifo worst", change(s3fifo_worst)),
    ])
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let misses = record.table(TABLE)?;
    let bars = relative(misses, &SHOWN[..3], "misses of the tier")?;
    Ok(vec![Picture {
        name: "eviction",
        plot: Plot {
            title: "Evictions on public traces".to_owned(),
            about: "Misses divided by those of lru: less is better. A group is a trace and the client's memory".to_owned(),
            panels: vec![Panel::Bars(bars)],
        },
    }])
}

/// Bars of some columns relative to the first of them, a group for each row.
fn relative(of: &Table, columns: &[&str], title: &str) -> Result<Bars, ResultsError> {
    let ratios = columns.iter().map(|column| of.ratios(column, columns[0]));
    let ratios: Result<Vec<Vec<f64>>, _> = ratios.collect();
    let ratios = ratios?;
    let group = |(number, row): (usize, &Row)| BarGroup {
        name: row.name.join(" "),
        values: ratios
            .iter()
            .map(|column| column.get(number).copied())
            .collect(),
    };
    Ok(Bars {
        title: title.to_owned(),
        unit: "relative to the first",
        groups: of.rows.iter().enumerate().map(group).collect(),
        labels: columns.iter().map(|column| (*column).to_owned()).collect(),
    })
}
