//! PUMA's figures and tables: far memory at another host.

use serde::Deserialize;
use sublet_sim::puma::{PumaTable, PumaTableRow, plots};

use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::table;
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "puma",
    reads: Reads::Scenarios,
    commands: &[Command::of("puma --seed 0")],
    condense,
    template: include_str!("puma.template"),
    words,
    pictures,
};

/// The table of what is expected.
const ACCEPTANCE: &str = "acceptance";

/// The words of the template for the tables, and how the tables' names begin.
const TABLES: [(&str, &str); 12] = [
    ("figure 4a", "Figure 4a"),
    ("figure 4b", "Figure 4b"),
    ("figure 5a", "Figure 5a"),
    ("figure 5b", "Figure 5b"),
    ("figure 5c", "Figure 5c"),
    ("figure 5d", "Figure 5d"),
    ("figure 5e", "Figure 5e"),
    ("figure 5f", "Figure 5f"),
    (
        "figure 7, paper",
        "Figure 7: speed-up with latency injected; the paper's",
    ),
    (
        "figure 7, nvme",
        "Figure 7: speed-up with latency injected; an NVMe",
    ),
    ("table 1", "Table 1"),
    ("table 2", "Table 2"),
];

/// The names of the pictures, in the order of the plots.
const PICTURES: [&str; 3] = ["puma-4", "puma-5", "puma-7"];

/// What the command prints, as far as it is kept.
#[derive(Deserialize)]
struct Puma {
    tables: Vec<PrintedTable>,
    acceptance: Vec<Expectation>,
}

#[derive(Deserialize)]
struct PrintedTable {
    title: String,
    columns: Vec<String>,
    rows: Vec<PrintedRow>,
}

#[derive(Deserialize)]
struct PrintedRow {
    name: [String; 2],
    values: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct Expectation {
    what: String,
    got: f64,
    least: f64,
    most: Option<f64>,
    holds: bool,
}

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let puma: Puma = played.read()?;
    let kept = |printed: PrintedTable| {
        let mut table = Table::of(&printed.title, printed.columns);
        for row in printed.rows {
            table.add(&[&row.name[0], &row.name[1]], row.values);
        }
        table
    };
    let mut tables: Vec<Table> = puma.tables.into_iter().map(kept).collect();
    let columns = ["got", "least", "most", "holds"].map(str::to_owned);
    let mut expected = Table::of(ACCEPTANCE, columns.to_vec());
    for line in puma.acceptance {
        let holds = f64::from(u8::from(line.holds));
        let values = [Some(line.got), Some(line.least), line.most, Some(holds)];
        expected.add(&[&line.what], values);
    }
    tables.push(expected);
    Ok(tables)
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let mut words = Words::new();
    for (word, begins) in TABLES {
        words.push((word, shown(found(record, begins)?)));
    }
    let expected = record.table(ACCEPTANCE)?;
    let met = expected.rows.iter().filter(|row| holds(row)).count();
    words.push(("met", met.to_string()));
    words.push(("expected", expected.rows.len().to_string()));
    words.push(("acceptance", acceptance(expected)));
    Ok(words)
}

fn found<'a>(record: &'a Record, begins: &str) -> Result<&'a Table, ResultsError> {
    let mut tables = record.tables.iter();
    tables
        .find(|table| table.name.starts_with(begins))
        .ok_or_else(|| ResultsError::Lacks(format!("the table {begins:?}")))
}

fn shown(of: &Table) -> String {
    let head = [String::new(), String::new()].into_iter();
    let head: Vec<String> = head.chain(of.columns.iter().cloned()).collect();
    let row = |row: &Row| {
        let values = row.values.iter().map(|value| figure(*value));
        row.name.iter().cloned().chain(values).collect()
    };
    let rows: Vec<Vec<String>> = of.rows.iter().map(row).collect();
    table(2, &head, &rows)
}

fn figure(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}

fn holds(row: &Row) -> bool {
    row.values.last().copied().flatten() == Some(1.0)
}

fn acceptance(of: &Table) -> String {
    let head = ["figure", "here", "expected", ""].map(str::to_owned);
    let row = |row: &Row| {
        let at = |place: usize| row.values.get(place).copied().flatten();
        let expected = match (at(1), at(2)) {
            (Some(least), Some(most)) if least > 0.0 => format!("{least:.2} to {most:.2}"),
            (_, Some(most)) => format!("at most {most:.2}"),
            (least, None) => format!("at least {}", figure(least)),
        };
        let verdict = if holds(row) { "met" } else { "missed" };
        vec![
            row.name.join(" "),
            figure(at(0)),
            expected,
            verdict.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = of.rows.iter().map(row).collect();
    table(1, &head, &rows)
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let of_row = |row: &Row| PumaTableRow {
        name: [0, 1].map(|part| row.name.get(part).cloned().unwrap_or_default()),
        values: row.values.clone(),
    };
    let of_table = |table: &Table| PumaTable {
        title: table.name.clone(),
        columns: table.columns.clone(),
        rows: table.rows.iter().map(of_row).collect(),
        paper: "",
        departures: &[],
    };
    let tables: Vec<PumaTable> = record.tables.iter().map(of_table).collect();
    let pictures = PICTURES.into_iter().zip(plots(&tables));
    Ok(pictures
        .map(|(name, plot)| Picture { name, plot })
        .collect())
}
