//! PUMA's figures and tables: far memory at another host.

use sublet_sim::puma::plots;

use super::figures::{condense, expectations, figure_tables, found, shown};
use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::record::Record;

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "puma",
    reads: Reads::Scenarios,
    commands: &[Command::of("puma --seed 0")],
    condense,
    template: include_str!("puma.template"),
    words,
    pictures,
};

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

fn words(record: &Record) -> Result<Words, ResultsError> {
    let mut words = Words::new();
    for (word, begins) in TABLES {
        words.push((word, shown(found(record, begins)?)));
    }
    words.extend(expectations(record)?);
    Ok(words)
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let pictures = PICTURES.into_iter().zip(plots(&figure_tables(record)));
    Ok(pictures
        .map(|(name, plot)| Picture { name, plot })
        .collect())
}
