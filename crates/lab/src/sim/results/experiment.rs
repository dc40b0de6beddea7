//! What an experiment is: its commands, the figures that are kept of them, and its section of the page.

use sublet_sim::plot::Plot;

use super::command::Command;
use super::error::ResultsError;
use super::played::Played;
use super::record::{Record, Table};

/// An experiment and its section of the page.
pub(super) struct Experiment {
    /// The name of its files, and for `--only`.
    pub(super) name: &'static str,
    /// Whether the commands read the public traces.
    pub(super) reads: Reads,
    /// What it runs.
    pub(super) commands: &'static [Command],
    /// Takes the figures that the page shows out of what the commands printed.
    pub(super) condense: fn(&[Played]) -> Result<Vec<Table>, ResultsError>,
    /// The section's text, with words in double braces where figures belong.
    pub(super) template: &'static str,
    /// What stands in place of these words.
    pub(super) words: fn(&Record) -> Result<Words, ResultsError>,
    /// The section's pictures.
    pub(super) pictures: fn(&Record) -> Result<Vec<Picture>, ResultsError>,
}

/// What stands in place of a template's words.
pub(super) type Words = Vec<(&'static str, String)>;

/// A picture of a section.
pub(super) struct Picture {
    /// The name of its file, without the ending.
    pub(super) name: &'static str,
    /// What it shows.
    pub(super) plot: Plot,
}

/// What an experiment's commands read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// The folder of public traces.
    Traces,
    /// Shipped scenarios alone.
    Scenarios,
}
