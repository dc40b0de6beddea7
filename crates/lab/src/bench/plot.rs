//! A bench's report as one SVG: a lane for each row's ratio, then a panel for each chart.

use std::fs;
use std::path::Path;

use sublet_sim::plot::{Corner, Curve, Curves, Panel, Plot, Ratio};

use super::chart::Chart;
use super::machine::Machine;
use super::report::{Report, Row};

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
    machine: &Machine,
    report: &Report,
) -> Result<(), PlotError> {
    let failed = |cause: String| PlotError {
        path: path.display().to_string(),
        cause,
    };
    let svg = plot(title, machine, report).draw();
    let svg = svg.map_err(|error| failed(error.to_string()))?;
    fs::write(path, svg).map_err(|error| failed(error.to_string()))
}

fn plot(title: &str, machine: &Machine, report: &Report) -> Plot {
    let ratios: Vec<Ratio> = report.rows.iter().filter_map(ratio).collect();
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

/// Ours ÷ the peer's, where there is a peer.
fn ratio(row: &Row) -> Option<Ratio> {
    Some(Ratio {
        name: row.name().to_owned(),
        ratio: row.ratio()?,
        goal: row.ratio_goal(),
        holds: row.holds(),
    })
}

fn panel(chart: &Chart) -> Panel {
    let curves = chart.curves.iter().map(|curve| Curve {
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
