//! A paper's figures, as the commands of papers print them: tables and expectations.

use serde::Deserialize;
use sublet_sim::figures::{FigureRow, FigureTable};

use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::Words;
use crate::sim::results::markdown::table;
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

/// The table of what is expected.
const ACCEPTANCE: &str = "acceptance";

/// What the command prints, as far as it is kept.
#[derive(Deserialize)]
struct PrintedFigures {
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

/// The printed tables, and one of the expectations.
pub(super) fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let printed: PrintedFigures = played.read()?;
    let kept = |printed: PrintedTable| {
        let mut table = Table::of(&printed.title, printed.columns);
        for row in printed.rows {
            table.add(&[&row.name[0], &row.name[1]], row.values);
        }
        table
    };
    let mut tables: Vec<Table> = printed.tables.into_iter().map(kept).collect();
    let columns = ["got", "least", "most", "holds"].map(str::to_owned);
    let mut expected = Table::of(ACCEPTANCE, columns.to_vec());
    for line in printed.acceptance {
        let holds = f64::from(u8::from(line.holds));
        let values = [Some(line.got), Some(line.least), line.most, Some(holds)];
        expected.add(&[&line.what], values);
    }
    tables.push(expected);
    Ok(tables)
}

/// What stands in place of `met`, `expected` and `acceptance` in a template.
pub(super) fn expectations(record: &Record) -> Result<Words, ResultsError> {
    let expected = record.table(ACCEPTANCE)?;
    let met = expected.rows.iter().filter(|row| holds(row)).count();
    Ok(vec![
        ("met", met.to_string()),
        ("expected", expected.rows.len().to_string()),
        ("acceptance", acceptance(expected)),
    ])
}

/// The table whose name begins with these words.
///
/// # Errors
///
/// There is none.
pub(super) fn found<'a>(record: &'a Record, begins: &str) -> Result<&'a Table, ResultsError> {
    let mut tables = record.tables.iter();
    tables
        .find(|table| table.name.starts_with(begins))
        .ok_or_else(|| ResultsError::Lacks(format!("the table {begins:?}")))
}

/// A table as the page shows it.
pub(super) fn shown(of: &Table) -> String {
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

/// The record's tables, as plots take them.
pub(super) fn figure_tables(record: &Record) -> Vec<FigureTable> {
    let of_row = |row: &Row| FigureRow {
        name: [0, 1].map(|part| row.name.get(part).cloned().unwrap_or_default()),
        values: row.values.clone(),
    };
    let of_table = |table: &Table| FigureTable {
        title: table.name.clone(),
        columns: table.columns.clone(),
        rows: table.rows.iter().map(of_row).collect(),
        paper: "",
        departures: &[],
    };
    record.tables.iter().map(of_table).collect()
}
