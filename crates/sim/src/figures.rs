//! A paper's figures and tables beside what a simulation comes to, and what is expected of them.

use std::fmt;
use std::ops::RangeInclusive;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

/// A figure or a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureTable {
    /// Its name in the paper, and what it shows.
    pub title: String,
    /// The columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<FigureRow>,
    /// What the paper says. May be empty.
    pub paper: &'static str,
    /// Where the simulation departs from the paper, and why.
    pub departures: &'static [&'static str],
}

/// A row of figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureRow {
    /// What it is of: a setting or a benchmark, and a variant.
    pub name: [String; 2],
    /// A figure for each column, where there is one.
    pub values: Vec<Option<f64>>,
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Acceptance {
    /// Where in the paper, and what.
    pub what: String,
    /// The figure.
    pub got: f64,
    /// The least that it may be.
    pub least: f64,
    /// The most that it may be, if there is a bound.
    pub most: Option<f64>,
    /// Whether the figure is within these bounds.
    pub holds: bool,
}

impl Acceptance {
    /// What is expected of a figure. `None` if the figure is not there.
    pub(crate) fn of(
        what: &str,
        got: Option<f64>,
        within: RangeInclusive<f64>,
    ) -> Option<Acceptance> {
        let got = got?;
        Some(Acceptance {
            what: what.to_owned(),
            got,
            least: within.start().max(0.0),
            most: Some(*within.end()).filter(|most| most.is_finite()),
            holds: within.contains(&got),
        })
    }
}

impl fmt::Display for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "met   " } else { "missed" };
        let (got, least) = (self.got, self.least);
        write!(f, "{verdict} {}: {got:.2}, ", self.what)?;
        match self.most {
            Some(most) if least > 0.0 => write!(f, "expected {least:.2} to {most:.2}"),
            Some(most) => write!(f, "expected at most {most:.2}"),
            None => write!(f, "expected at least {least:.2}"),
        }
    }
}

/// The form for people: each table, what the paper says, and where and why they differ; then the expectations.
pub(crate) fn text(tables: &[FigureTable], acceptance: &[Acceptance]) -> String {
    let mut text = String::new();
    for table in tables {
        text.push_str(&format!("{}\n{}\n", table.title, drawn(table)));
        if !table.paper.is_empty() {
            text.push_str(&format!("The paper: {}\n", table.paper));
        }
        for departure in table.departures {
            text.push_str(&format!("Departure: {departure}\n"));
        }
        text.push('\n');
    }
    for line in acceptance {
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn drawn(table: &FigureTable) -> Table {
    let mut drawn = Table::new();
    drawn
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled);
    let head = ["", ""]
        .into_iter()
        .chain(table.columns.iter().map(String::as_str));
    drawn.set_header(head);
    for row in &table.rows {
        let names = row.name.iter().map(Cell::new);
        let values = row.values.iter().map(|value| {
            let text = value.map_or(String::new(), |value| format!("{value:.2}"));
            Cell::new(text).set_alignment(CellAlignment::Right)
        });
        drawn.add_row(names.chain(values));
    }
    drawn
}
