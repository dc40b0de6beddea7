//! Mortar's figure 10: a store that follows free memory beside one of the least that is free.

use sublet_sim::plot::{BarGroup, Bars, Panel, Plot};

use super::report::Report;
use crate::sim::results::command::{Command, EditedScenario};
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::{change, code, table};
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "mortar",
    reads: Reads::Scenarios,
    commands: &[
        Command::of("mortar --seed 0"),
        Command::of("compare mortar --evictions x-s3h,adaptive-mq --seed 0"),
        Command {
            arguments: "compare mortar-fixed.toml --evictions x-s3h,adaptive-mq --seed 0",
            scenario: Some(EditedScenario {
                file: "mortar-fixed.toml",
                of: "mortar",
                from: "[host]\n",
                to: "[host]\nstore = \"fixed\"\n",
            }),
        },
    ],
    condense,
    template: include_str!("mortar.template"),
    words,
    pictures,
};

/// The tables: each has a row for each eviction.
const HITS: &str = "tier hits";
const RESPONSE: &str = "mean response";
const STORES: [&str; 2] = ["fixed", "elastic"];
const EVICTIONS: [&str; 3] = ["lru", "x-s3h", "adaptive-mq"];

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let reports: Result<Vec<Report>, _> = played.iter().map(Played::read::<Report>).collect();
    let reports = reports?;
    [HITS, RESPONSE]
        .into_iter()
        .map(|figure| of_figure(figure, &reports))
        .collect()
}

fn of_figure(figure: &str, reports: &[Report]) -> Result<Table, ResultsError> {
    let mut table = Table::of(figure, STORES.map(str::to_owned).to_vec());
    for eviction in EVICTIONS {
        let values = STORES.map(|store| find(reports, figure, eviction, store));
        let [fixed, elastic] = values;
        table.add(&[eviction], [fixed?, elastic?]);
    }
    Ok(table)
}

/// The figure of the run with this eviction and store.
fn find(
    reports: &[Report],
    figure: &str,
    eviction: &str,
    store: &str,
) -> Result<Option<f64>, ResultsError> {
    for report in reports {
        let is_asked = |label: &str| label.ends_with(", fixed") == (store == STORES[0]);
        let mut runs = report.runs.iter();
        if let Some(run) = runs.position(|run| run.eviction == eviction && is_asked(&run.label)) {
            return Ok(report.figure("web", figure)?.get(run).copied().flatten());
        }
    }
    Err(ResultsError::Lacks(format!(
        "{figure}, {eviction}, {store}"
    )))
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let (hits, response) = (record.table(HITS)?, record.table(RESPONSE)?);
    let head = [
        "eviction",
        "hits, fixed",
        "hits, elastic",
        "response, fixed",
        "response, elastic",
        "change",
    ];
    let row = |eviction: &str| {
        let [fixed_hits, elastic_hits] = STORES.map(|store| hits.value(&[eviction], store));
        let [fixed, elastic] = STORES.map(|store| response.value(&[eviction], store));
        let (fixed, elastic) = (fixed?, elastic?);
        Ok(vec![
            code(eviction),
            format!("{:.1} %", fixed_hits?),
            format!("{:.1} %", elastic_hits?),
            format!("{fixed:.2} ms"),
            format!("{elastic:.2} ms"),
            change(elastic / fixed),
        ])
    };
    let rows: Result<Vec<Vec<String>>, ResultsError> = EVICTIONS.into_iter().map(row).collect();
    let [fixed, elastic] = STORES.map(|store| response.value(&["lru"], store));
    let (fixed, elastic) = (fixed?, elastic?);
    Ok(vec![
        ("stores", table(1, &head.map(str::to_owned), &rows?)),
        ("gain", format!("{:.0} %", (1.0 - elastic / fixed) * 100.0)),
        ("fixed response", format!("{fixed:.0}")),
        ("elastic response", format!("{elastic:.0}")),
        (
            "fixed hits",
            format!("{:.0} %", hits.value(&["lru"], STORES[0])?),
        ),
    ])
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let units = [(RESPONSE, "ms"), (HITS, "% of gets")];
    let panels = units.map(|(figure, unit)| panel(record.table(figure)?, unit));
    let panels: Result<Vec<Panel>, ResultsError> = panels.into_iter().collect();
    Ok(vec![Picture {
        name: "mortar",
        plot: Plot {
            title: "Mortar: a fixed and an elastic store".to_owned(),
            about: "By eviction. Response: less is better; hits: more is better".to_owned(),
            panels: panels?,
        },
    }])
}

fn panel(of: &Table, unit: &'static str) -> Result<Panel, ResultsError> {
    let group = |row: &Row| BarGroup {
        name: row.name.join(" "),
        values: row.values.clone(),
    };
    Ok(Panel::Bars(Bars {
        title: of.name.clone(),
        unit,
        groups: of.rows.iter().map(group).collect(),
        labels: of.columns.clone(),
    }))
}
