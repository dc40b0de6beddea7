//! Cached disks: what ways of caching a guest's disk miss, and how long the guest's reads wait.

use serde::Deserialize;
use sublet_sim::cached_disk::{CachingSetup, ComparedFigure, SetupComparison, questions};
use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use super::eviction::stem;
use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{change, comparison, percent};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "disk",
    reads: Reads::Traces,
    commands: &[Command::of(
        "disk --trace OLTP.lis.zst --trace P3.lis.zst --trace P6.lis.zst --trace w106.trace.xz \
         --trace cloudPhysicsIO.vscsi --seed 0",
    )],
    condense,
    template: include_str!("disk.template"),
    words,
    pictures,
};

/// The words of the template in the order of the questions that they show.
const WORDS: [&str; 13] = [
    "misses",
    "misses ahead",
    "waiting ahead",
    "half hits ahead",
    "stalled by window",
    "waiting by window",
    "pages by window",
    "misses by filter",
    "stalled by filter",
    "misses by writes",
    "stalled by leaving",
    "waiting by leaving",
    "half hits by leaving",
];

/// The setup that admissions are compared with.
const YARD_STICK: &str = "miss lru";

/// An eviction whose columns would make the widest tables unreadable: no disk has it unless it is asked for.
const LEFT_OUT: &str = "adaptive-mq";

/// A setup's name where the setup does nothing of what a question is about.
const NONE: &str = "none";

#[derive(Deserialize)]
struct Comparison {
    setups: Vec<String>,
    rows: Vec<ComparisonRow>,
}

#[derive(Deserialize)]
struct ComparisonRow {
    trace: String,
    client: f64,
    counts: Vec<Counts>,
}

#[derive(Deserialize)]
struct Counts {
    ios: u64,
    stalled: u64,
    halved: u64,
    gets: u64,
    misses: u64,
    backing_pages: u64,
    waited_us: u64,
}

impl Counts {
    fn of(&self, figure: ComparedFigure) -> u64 {
        match figure {
            ComparedFigure::Misses => self.misses,
            ComparedFigure::Stalled => self.stalled,
            ComparedFigure::Wait => self.waited_us / self.ios.max(1),
            ComparedFigure::BackingPages => self.backing_pages,
            ComparedFigure::Halved => self.halved,
        }
    }

    fn asked(&self, figure: ComparedFigure) -> u64 {
        match figure {
            ComparedFigure::Misses | ComparedFigure::BackingPages => self.gets,
            ComparedFigure::Stalled | ComparedFigure::Wait | ComparedFigure::Halved => self.ios,
        }
    }
}

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let all: Comparison = played.read()?;
    questions()
        .iter()
        .map(|question| answer(question, &all))
        .collect()
}

/// One question's figures: of how many, and each setup's.
fn answer(question: &SetupComparison, all: &Comparison) -> Result<Table, ResultsError> {
    let place = |setup: &CachingSetup| {
        let name = setup.to_string();
        let place = all.setups.iter().position(|known| *known == name);
        place.ok_or_else(|| ResultsError::Lacks(format!("the setup {name}")))
    };
    let places: Result<Vec<usize>, _> = question.setups.iter().map(place).collect();
    let places = places?;
    let asked = asked_of(question.figure).to_owned();
    let labels = short(&CachingSetup::labels(&question.setups));
    let mut table = Table::of(question.title, [asked].into_iter().chain(labels).collect());
    for row in &all.rows {
        let counts: Vec<&Counts> = places
            .iter()
            .filter_map(|place| row.counts.get(*place))
            .collect();
        let asked = counts.first().map(|counts| counts.asked(question.figure));
        let figures = counts.iter().map(|counts| Some(counts.of(question.figure)));
        let values = [asked].into_iter().chain(figures);
        let name = [stem(&row.trace), &percent(row.client)];
        table.add(&name, values.map(|value| value.map(|count| count as f64)));
    }
    Ok(table)
}

fn asked_of(figure: ComparedFigure) -> &'static str {
    match figure {
        ComparedFigure::Misses | ComparedFigure::BackingPages => "pages",
        ComparedFigure::Stalled | ComparedFigure::Wait | ComparedFigure::Halved => "reads",
    }
}

/// Setups' names without the first part, where all have the same one.
fn short(labels: &[String]) -> Vec<String> {
    let first = |label: &str| label.split(", ").next().unwrap_or_default().to_owned();
    let base = labels.first().map(|label| first(label)).unwrap_or_default();
    if !labels.iter().all(|label| first(label) == base) {
        return labels.to_vec();
    }
    let rest = |label: &String| match label.split_once(", ") {
        Some((_, rest)) => rest.to_owned(),
        None => NONE.to_owned(),
    };
    labels.iter().map(rest).collect()
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let word = |(word, question): (&'static str, SetupComparison)| {
        let of = record.table(question.title)?;
        let columns: Vec<&str> = setups_of(of);
        let text = comparison(of, &["trace", "guest"], asked_of(question.figure), &columns)?;
        Ok((word, text))
    };
    let words: Result<Words, ResultsError> = WORDS.into_iter().zip(questions()).map(word).collect();
    let mut words = words?;
    for (word, question, setup) in [
        ("second-miss mean", 0, "second-miss x-s3h"),
        ("second-miss ahead mean", 1, "second-miss x-s3h"),
        ("bound mean", 0, "bound x-s3h"),
    ] {
        let (mean, _) = table_of(record, question)?.mean_and_worst(setup, YARD_STICK)?;
        words.push((word, change(mean)));
    }
    Ok(words)
}

/// The setups that are shown.
fn setups_of(of: &Table) -> Vec<&str> {
    let shown = of.columns.iter().skip(1).map(String::as_str);
    shown.filter(|name| !name.contains(LEFT_OUT)).collect()
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let [misses, ahead, waiting] = [0, 1, 2].map(|number| table_of(record, number));
    let admissions = [misses?, ahead?, waiting?].map(by_admission);
    let windows = [4, 5, 6].map(|number| table_of(record, number));
    let windows: Result<Vec<&Table>, _> = windows.into_iter().collect();
    let leaving = [10, 11, 12].map(|number| table_of(record, number));
    let leaving: Result<Vec<&Table>, _> = leaving.into_iter().collect();
    let filters = [7, 8].map(|number| table_of(record, number));
    let filters: Result<Vec<&Table>, _> = filters.into_iter().collect();
    let mut panels: Vec<Panel> = admissions.into_iter().collect::<Result<_, _>>()?;
    panels.push(side_by_side(
        "By window of read-ahead and number of streams, miss x-s3h",
        &windows?,
    )?);
    panels.push(side_by_side(
        "By the sequential filter, miss x-s3h",
        &filters?,
    )?);
    panels.push(side_by_side("By what leaves together", &leaving?)?);
    Ok(vec![Picture {
        name: "disk",
        plot: Plot {
            title: "Ways of caching a guest's disk".to_owned(),
            about: "Means over five traces with two sizes of the guest, divided by the first: less is better".to_owned(),
            panels,
        },
    }])
}

fn table_of(record: &Record, question: usize) -> Result<&Table, ResultsError> {
    let all = questions();
    let title = all.get(question).map_or("", |question| question.title);
    record.table(title)
}

/// A group of bars for each admission, a bar for each eviction.
fn by_admission(of: &Table) -> Result<Panel, ResultsError> {
    let setups = setups_of(of);
    let base = setups.first().copied().unwrap_or_default();
    let mut groups: Vec<BarGroup> = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    for setup in &setups {
        let (fill, eviction) = setup.split_once(' ').unwrap_or((setup, ""));
        if !labels.iter().any(|label| label == eviction) {
            labels.push(eviction.to_owned());
        }
        if groups.last().is_none_or(|group| group.name != fill) {
            groups.push(BarGroup {
                name: fill.to_owned(),
                values: Vec::new(),
            });
        }
        let (mean, _) = of.mean_and_worst(setup, base)?;
        if let Some(group) = groups.last_mut() {
            group.values.push(Some(mean));
        }
    }
    Ok(Panel::Bars(Bars {
        title: of.name.clone(),
        unit: "relative to the first",
        groups,
        labels,
    }))
}

/// A group of bars for each figure, a bar for each setup.
fn side_by_side(title: &str, tables: &[&Table]) -> Result<Panel, ResultsError> {
    let mut groups = Vec::new();
    for table in tables {
        let setups = setups_of(table);
        let base = setups.first().copied().unwrap_or_default();
        let mean = |setup: &&str| Ok(Some(table.mean_and_worst(setup, base)?.0));
        let values: Result<Vec<Option<f64>>, ResultsError> = setups.iter().map(mean).collect();
        groups.push(BarGroup {
            name: table
                .name
                .split(" by ")
                .next()
                .unwrap_or_default()
                .to_owned(),
            values: values?,
        });
    }
    let labels = tables.first().map(|table| setups_of(table));
    Ok(Panel::Bars(Bars {
        title: title.to_owned(),
        unit: "relative to the first",
        groups,
        labels: labels
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_its_word() {
        assert_eq!(WORDS.len(), questions().len());
    }

    #[test]
    fn what_all_setups_are_called_is_left_out() {
        let labels = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(
            short(&labels(&["miss lru", "miss lru, whole"])),
            ["none", "whole"]
        );
        assert_eq!(
            short(&labels(&["miss lru", "miss s3fifo"])),
            ["miss lru", "miss s3fifo"]
        );
    }
}
