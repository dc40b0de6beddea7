//! A bench's report as one SVG: one lane per row's ratio, then one panel per chart.

use std::fs;
use std::path::Path;

use sublet_sim::plot::{Corner, Curves, Panel, Plot, PlotCurve, RatioMark};

use super::chart::Chart;
use super::machine::MachineFacts;
use super::report::{BenchReport, BenchRow};

/// Why a plot was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {path}: {cause}")]
pub(crate) struct PlotError {
    path: String,
    cause: String,
}

/// Draws `report` into the file at `path`.
pub(super) fn draw(
    path: &Path,
    title: &str,
    machine: &MachineFacts,
    report: &BenchReport,
) -> Result<(), PlotError> {
    let failed = |cause: String| PlotError {
        path: path.display().to_string(),
        cause,
    };
    let svg = plot(title, machine, report).draw();
    let svg = svg.map_err(|error| failed(error.to_string()))?;
    fs::write(path, svg).map_err(|error| failed(error.to_string()))
}

fn plot(title: &str, machine: &MachineFacts, report: &BenchReport) -> Plot {
    let ratios: Vec<RatioMark> = report.rows.iter().filter_map(ratio).collect();
    let lanes = (!ratios.is_empty()).then_some(Panel::Ratios(ratios));
    Plot {
        title: format!("sublet-lab bench {title}"),
        about: machine.to_string(),
        panels: lanes
            .into_iter()
            .chain(report.charts.iter().map(panel))
            .collect(),
    }
}

/// Ours ÷ the peer's, if there is a peer.
fn ratio(row: &BenchRow) -> Option<RatioMark> {
    Some(RatioMark {
        name: row.name().to_owned(),
        ratio: row.ratio()?,
        goal: row.ratio_goal(),
        holds: row.holds(),
    })
}

fn panel(chart: &Chart) -> Panel {
    let curves = chart.curves.iter().map(|curve| PlotCurve {
        name: curve.name.clone(),
        points: curve.points.clone(),
        dashed: Vec::new(),
    });
    Panel::Curves(Curves {
        title: chart.title.clone(),
        x: chart.x.clone(),
        y: chart.y.clone(),
        behind: Vec::new(),
        curves: curves.collect(),
        names: Corner::LowerRight,
    })
}
