//! What is kept of an experiment: when it was recorded, by which commands, and the figures that the page shows.

use std::fs;
use std::path::Path;
use std::thread;

use serde::{Deserialize, Serialize};

use super::error::ResultsError;
use super::layout;

/// The form of a record's file.
const VERSION: u32 = 1;

/// A recorded experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// The day, as in 2026-11-27.
    pub(super) recorded: String,
    /// The processors of the machine on which the commands ran.
    pub(super) processors: usize,
    /// Where the figures were copied from, if no run made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recorded_from: Option<String>,
    /// The commands that made them, in their order.
    pub(super) commands: Vec<Ran>,
    /// The figures.
    pub(super) tables: Vec<Table>,
}

/// A command that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ran {
    /// As a user types it.
    pub(super) line: String,
    /// Seconds that it took.
    pub(super) secs: f64,
    /// The most memory that it held, in MiB.
    pub(super) peak_mib: f64,
}

/// Figures by row and column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Table {
    /// What its section calls it.
    pub(super) name: String,
    /// The columns.
    pub(super) columns: Vec<String>,
    /// The rows, in the order in which the page shows them.
    pub(super) rows: Vec<Row>,
}

/// A row of figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// Its name, which has a part for each of the first cells.
    pub(super) name: Vec<String>,
    /// A figure for each column, where there is one.
    pub(super) values: Vec<Option<f64>>,
}

impl Record {
    /// Makes a record of figures that commands made on this day.
    pub(super) fn of(recorded: String, commands: Vec<Ran>, tables: Vec<Table>) -> Record {
        Record {
            version: VERSION,
            recorded,
            processors: thread::available_parallelism().map_or(1, usize::from),
            recorded_from: None,
            commands,
            tables,
        }
    }

    /// Reads the record in `file`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds something else.
    pub(super) fn read(file: &Path) -> Result<Record, ResultsError> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).map_err(|cause| ResultsError::Unreadable {
            file: name(),
            cause,
        })?;
        serde_json::from_str(&text).map_err(|cause| ResultsError::NoRecord {
            file: name(),
            cause,
        })
    }

    /// The text of its file.
    ///
    /// # Errors
    ///
    /// None that we know of: a record has nothing that JSON lacks.
    pub(super) fn text(&self) -> Result<String, ResultsError> {
        let json = serde_json::to_value(self).map_err(|cause| ResultsError::NoRecord {
            file: "a record".to_owned(),
            cause,
        })?;
        Ok(layout::text(&json))
    }

    /// The table of this name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn table(&self, name: &str) -> Result<&Table, ResultsError> {
        let mut tables = self.tables.iter();
        tables
            .find(|table| table.name == name)
            .ok_or_else(|| ResultsError::Lacks(format!("the table {name:?}")))
    }
}

impl Table {
    /// Makes a table without rows.
    pub(super) fn of(name: &str, columns: Vec<String>) -> Table {
        Table {
            name: name.to_owned(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row; keeps six decimals.
    pub(super) fn add(&mut self, name: &[&str], values: impl IntoIterator<Item = Option<f64>>) {
        let kept = |value: f64| (value * 1e6).round() / 1e6;
        self.rows.push(Row {
            name: name.iter().map(|part| (*part).to_owned()).collect(),
            values: values.into_iter().map(|value| value.map(kept)).collect(),
        });
    }

    /// The figure in a row and a column.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn value(&self, row: &[&str], column: &str) -> Result<f64, ResultsError> {
        let place = self.place(column)?;
        let found = self.rows.iter().find(|known| known.name == row);
        let value = found.and_then(|row| row.values.get(place).copied().flatten());
        value.ok_or_else(|| {
            ResultsError::Lacks(format!("{}: {column} of {}", self.name, row.join(", ")))
        })
    }

    /// The number of a column.
    ///
    /// # Errors
    ///
    /// There is none of this name.
    pub(super) fn place(&self, column: &str) -> Result<usize, ResultsError> {
        let place = self.columns.iter().position(|known| known == column);
        place.ok_or_else(|| ResultsError::Lacks(format!("{}: the column {column}", self.name)))
    }

    /// The figures of a column divided by those of the column `base`, row by row.
    ///
    /// # Errors
    ///
    /// A column is not there.
    pub(super) fn ratios(&self, column: &str, base: &str) -> Result<Vec<f64>, ResultsError> {
        let (place, base) = (self.place(column)?, self.place(base)?);
        let at = |row: &Row, place: usize| row.values.get(place).copied().flatten();
        let ratio = |row: &Row| match (at(row, place)?, at(row, base)?) {
            (value, base) if value == base => Some(1.0),
            (value, base) => (base != 0.0).then_some(value / base),
        };
        Ok(self.rows.iter().filter_map(ratio).collect())
    }

    /// The mean of these ratios, and the worst of them.
    ///
    /// # Errors
    ///
    /// A column is not there, or no row has both figures.
    pub(super) fn mean_and_worst(
        &self,
        column: &str,
        base: &str,
    ) -> Result<(f64, f64), ResultsError> {
        let ratios = self.ratios(column, base)?;
        let worst = ratios.iter().copied().reduce(f64::max);
        let worst = worst.ok_or_else(|| {
            ResultsError::Lacks(format!("{}: a row with {column} and {base}", self.name))
        })?;
        Ok((ratios.iter().sum::<f64>() / ratios.len() as f64, worst))
    }
}
