//! Six tenants in one arena: what each policy misses of all they ask for.

use serde::Deserialize;
use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use crate::sim::results::command::Command;
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{bold, code, table};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "sharing",
    reads: Reads::Traces,
    commands: &[
        Command::of("sharing --traces FOLDER --seed 1"),
        Command::of("sharing --traces FOLDER --seed 7"),
        Command::of("sharing --traces FOLDER --seed 1 --eviction x-s3h"),
        Command::of("sharing --traces FOLDER --seed 1 --items --requests 200000"),
    ],
    condense,
    template: include_str!("sharing.template"),
    words,
    pictures,
};

/// What each command's figures are called, in the commands' order.
const TABLES: [&str; 4] = ["pages", "pages, seed 7", "pages, x-s3h", "items"];

/// The policy that others are compared with.
const YARD_STICK: &str = "mrc";

#[derive(Deserialize)]
struct Sharing {
    policies: Vec<String>,
    rows: Vec<SharedSet>,
}

#[derive(Deserialize)]
struct SharedSet {
    set: String,
    percent: f64,
    tenants: Vec<Vec<Asked>>,
}

#[derive(Deserialize)]
struct Asked {
    gets: u64,
    misses: u64,
}

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let condensed = |(name, played): (&str, &Played)| {
        let sharing: Sharing = played.read()?;
        let mut table = Table::of(name, sharing.policies);
        for row in &sharing.rows {
            let arena = format!("{} %", row.percent);
            table.add(
                &[&set_name(row), &arena],
                row.tenants.iter().map(miss_ratio),
            );
        }
        Ok(table)
    };
    TABLES.into_iter().zip(played).map(condensed).collect()
}

/// The set's name; three sets are of the same traces, and differ by their arena alone.
fn set_name(row: &SharedSet) -> String {
    match row.set.as_str() {
        "3 %" | "25 %" => "six real".to_owned(),
        name => name.to_owned(),
    }
}

/// All tenants' misses for each request.
#[expect(clippy::ptr_arg, reason = "it maps over vectors")]
fn miss_ratio(tenants: &Vec<Asked>) -> Option<f64> {
    let gets: u64 = tenants.iter().map(|asked| asked.gets).sum();
    let misses: u64 = tenants.iter().map(|asked| asked.misses).sum();
    (gets > 0).then(|| misses as f64 / gets as f64)
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let pages = record.table("pages")?;
    let mean_and_worst = |table: &str, policy: &str| {
        let (mean, worst) = record.table(table)?.mean_and_worst(policy, YARD_STICK)?;
        Ok::<_, ResultsError>((format!("{mean:.3}"), format!("{worst:.3}")))
    };
    let (pooled, pooled_worst) = mean_and_worst("pages", "pooled")?;
    let (weights, weights_worst) = mean_and_worst("pages", "weights")?;
    let (seed_7, seed_7_worst) = mean_and_worst("pages, seed 7", "pooled")?;
    let (x_s3h, x_s3h_worst) = mean_and_worst("pages, x-s3h", "pooled")?;
    let (items, items_worst) = mean_and_worst("items", "pooled")?;
    Ok(vec![
        ("pages", shown(pages)?),
        ("items", shown(record.table("items")?)?),
        ("pooled mean", pooled),
        ("pooled worst", pooled_worst),
        ("weights mean", weights),
        ("weights worst", weights_worst),
        ("seed 7 mean", seed_7),
        ("seed 7 worst", seed_7_worst),
        ("x-s3h mean", x_s3h),
        ("x-s3h worst", x_s3h_worst),
        ("items mean", items),
        ("items worst", items_worst),
    ])
}

/// Each set's misses for a request, and beside them their ratio to the yard-stick's.
fn shown(of: &Table) -> Result<String, ResultsError> {
    let head = ["set", "arena"].map(str::to_owned).into_iter();
    let head: Vec<String> = head
        .chain(of.columns.iter().map(|name| code(name)))
        .collect();
    let base = of.place(YARD_STICK)?;
    let row = |row: &Row| {
        let cells = row.name.iter().cloned();
        let values = (0..of.columns.len()).map(|place| cell(row, place, base));
        cells.chain(values).collect()
    };
    let mut rows: Vec<Vec<String>> = of.rows.iter().map(row).collect();
    let mut last = vec![bold("mean, worst"), String::new()];
    for policy in &of.columns {
        let (mean, worst) = of.mean_and_worst(policy, YARD_STICK)?;
        last.push(match policy.as_str() {
            YARD_STICK => String::new(),
            _ => bold(&format!("{mean:.3}, {worst:.3}")),
        });
    }
    rows.push(last);
    Ok(table(1, &head, &rows))
}

fn cell(row: &Row, place: usize, base: usize) -> String {
    let at = |place: usize| row.values.get(place).copied().flatten();
    match (at(place), at(base)) {
        (Some(value), Some(_)) if place == base => format!("{value:.4}"),
        (Some(value), Some(base)) => format!("{value:.4} ({:.3})", value / base),
        _ => String::new(),
    }
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let panels = ["pages", "items"].map(|of| panel(record.table(of)?));
    let panels: Result<Vec<Panel>, ResultsError> = panels.into_iter().collect();
    Ok(vec![Picture {
        name: "sharing",
        plot: Plot {
            title: "Six tenants in one arena".to_owned(),
            about: "Misses of all tenants, divided by those under mrc: less is better".to_owned(),
            panels: panels?,
        },
    }])
}

fn panel(of: &Table) -> Result<Panel, ResultsError> {
    let ratios: Result<Vec<Vec<f64>>, _> = of
        .columns
        .iter()
        .map(|policy| of.ratios(policy, YARD_STICK))
        .collect();
    let ratios = ratios?;
    let group = |(number, row): (usize, &Row)| BarGroup {
        name: row.name.join(", "),
        values: ratios
            .iter()
            .map(|policy| policy.get(number).copied())
            .collect(),
    };
    Ok(Panel::Bars(Bars {
        title: of.name.clone(),
        unit: "misses, relative to mrc's",
        groups: of.rows.iter().enumerate().map(group).collect(),
        labels: of.columns.clone(),
    }))
}
