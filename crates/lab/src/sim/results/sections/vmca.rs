//! vMCA's scenarios: running times on nodes that borrow of idle ones.

use sublet_sim::vmca::plots;

use super::figures::{condense, expectations, figure_tables, found, shown};
use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::record::Record;

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "vmca",
    reads: Reads::Scenarios,
    commands: &[Command::of("vmca --seed 0")],
    condense,
    template: include_str!("vmca.template"),
    words,
    pictures,
};

/// The words of the template for the tables, and how the tables' names begin.
const TABLES: [(&str, &str); 12] = [
    ("times 1", "Scenario 1: running times"),
    ("times 2", "Scenario 2: running times"),
    ("times 3", "Scenario 3: running times"),
    ("times 4", "Scenario 4: running times"),
    ("gains 1", "Scenario 1: how much less time"),
    ("gains 2", "Scenario 2: how much less time"),
    ("gains 3", "Scenario 3: how much less time"),
    ("gains 4", "Scenario 4: how much less time"),
    ("moved 1", "Scenario 1: what moved"),
    ("moved 2", "Scenario 2: what moved"),
    ("moved 3", "Scenario 3: what moved"),
    ("moved 4", "Scenario 4: what moved"),
];

fn words(record: &Record) -> Result<Words, ResultsError> {
    let mut words = Words::new();
    for (word, begins) in TABLES {
        words.push((word, shown(found(record, begins)?)));
    }
    words.extend(expectations(record)?);
    Ok(words)
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let plots = plots(&figure_tables(record)).into_iter();
    Ok(plots.map(|plot| Picture { name: "vmca", plot }).collect())
}
