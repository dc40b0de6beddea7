//! Mortar's load on a host whose memory follows a trace, with the headroom code in the loop.

use sublet_sim::plot::{Corner, Curves, Panel, Plot, PlotCurve};

use super::report::{Report, Run};
use crate::sim::results::command::{Command, EditedScenario};
use crate::sim::results::error::ResultsError;
use crate::sim::results::experiment::{Experiment, Picture, Reads, Words};
use crate::sim::results::markdown::count;
use crate::sim::results::played::Played;
use crate::sim::results::record::{Record, Row, Table};

pub(in crate::sim::results) const EXPERIMENT: Experiment = Experiment {
    name: "mortar-host",
    reads: Reads::Traces,
    commands: &[Command {
        arguments: "run mortar-host.toml --seed 0",
        scenario: Some(EditedScenario {
            file: "mortar-host.toml",
            of: "mortar",
            from: "[host]\n",
            to: "[host.follow]\n\
                 file = \"FOLDER/bitbrains_58hosts_free_MiB_2013-7.csv.gz\"\n\
                 format = \"bitbrains\"\n\
                 host = \"h6\"\n\
                 speed = 60\n\
                 peak = \"4GiB\"\n\
                 [host]\n",
        }),
    }],
    condense,
    template: include_str!("mortar_host.template"),
    words,
    pictures,
};

const FIGURES: &str = "figures";
const ARENA: &str = "arena";
/// The columns of the arena over time.
const SECS: &str = "seconds";
const MIB: &str = "MiB";

const MIB_PAGES: f64 = 256.0;

/// Points that the picture has at the most.
const POINTS_MAX: usize = 150;

fn condense(played: &[Played]) -> Result<Vec<Table>, ResultsError> {
    let Some(played) = played.first() else {
        return Ok(Vec::new());
    };
    let report: Report = played.read()?;
    let run = report.runs.first();
    let run = run.ok_or_else(|| ResultsError::Lacks("a run".to_owned()))?;
    let first = |figure| {
        let values = report.figure("web", figure)?;
        Ok::<_, ResultsError>(values.first().copied().flatten())
    };
    let mut figures = Table::of(FIGURES, vec!["value".to_owned()]);
    figures.add(&["tier hits, %"], [first("tier hits")?]);
    figures.add(&["mean response, ms"], [first("mean response")?]);
    let mib = run
        .samples
        .total
        .iter()
        .map(|pages| *pages as f64 / MIB_PAGES);
    figures.add(&["arena at least, MiB"], [mib.clone().reduce(f64::min)]);
    figures.add(&["arena at most, MiB"], [mib.reduce(f64::max)]);
    figures.add(&["wrongs"], [Some(run.wrongs as f64)]);
    Ok(vec![figures, arena(run)])
}

/// The arena over time.
fn arena(run: &Run) -> Table {
    let mut arena = Table::of(ARENA, [SECS, MIB].map(str::to_owned).to_vec());
    let points = run.samples.secs.iter().zip(&run.samples.total);
    let every = run.samples.secs.len().div_ceil(POINTS_MAX).max(1);
    for (secs, pages) in points.step_by(every) {
        arena.add(&[], [Some(*secs), Some(*pages as f64 / MIB_PAGES)]);
    }
    arena
}

fn words(record: &Record) -> Result<Words, ResultsError> {
    let figures = record.table(FIGURES)?;
    let value = |name: &str| figures.value(&[name], "value");
    let judged = match value("wrongs")? {
        0.0 => "The judges watched, and found nothing.".to_owned(),
        wrongs => format!("The judges watched, and found {} wrongs.", count(wrongs)),
    };
    Ok(vec![
        ("hits", format!("{:.1} %", value("tier hits, %")?)),
        ("response", format!("{:.2} ms", value("mean response, ms")?)),
        ("least", count(value("arena at least, MiB")?)),
        ("most", count(value("arena at most, MiB")?)),
        ("judged", judged),
    ])
}

fn pictures(record: &Record) -> Result<Vec<Picture>, ResultsError> {
    let arena = record.table(ARENA)?;
    let (secs, mib) = (arena.place(SECS)?, arena.place(MIB)?);
    let point = |row: &Row| Some(((*row.values.get(secs)?)?, (*row.values.get(mib)?)?));
    let curve = PlotCurve {
        name: "arena".to_owned(),
        points: arena.rows.iter().filter_map(point).collect(),
        dashed: Vec::new(),
    };
    Ok(vec![Picture {
        name: "mortar-host",
        plot: Plot {
            title: "Mortar's load on a host of the past".to_owned(),
            about: "The most that the arena may hold, as the headroom code says".to_owned(),
            panels: vec![Panel::Curves(Curves {
                title: "Bitbrains h6, 60 times as fast".to_owned(),
                x: "virtual seconds".to_owned(),
                y: "MiB".to_owned(),
                behind: Vec::new(),
                curves: vec![curve],
                names: Corner::LowerRight,
            })],
        },
    }])
}
