//! A bench's report as one SVG: a lane for each row's ratio, then a panel for each chart.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

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

const WIDTH: u32 = 1100;
const HEADER: u32 = 64;
const LANE: u32 = 22;
const LANES_FRAME: u32 = 70;
const PANEL: u32 = 400;
/// Room for a row's name, left of its lane.
const NAMES: u32 = 430;
/// Room for a row's ratio, right of its lane.
const RATIOS: u32 = 130;

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const GOOD: RGBColor = RGBColor(0, 130, 90);
const BAD: RGBColor = RGBColor(200, 60, 40);
const PLAIN: RGBColor = RGBColor(70, 110, 180);
/// Okabe and Ito's colours, told apart by colour-blind readers too.
const CURVES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws `report` into the file at `path`.
pub(super) fn draw(
    path: &Path,
    title: &str,
    machine: &Machine,
    report: &Report,
) -> Result<(), PlotError> {
    draw_all(path, title, machine, report).map_err(|cause| PlotError {
        path: path.display().to_string(),
        cause: cause.to_string(),
    })
}

fn draw_all(path: &Path, title: &str, machine: &Machine, report: &Report) -> Drawn {
    let rated: Vec<&Row> = report.rows.iter().filter(|r| r.ratio().is_some()).collect();
    let lanes = match rated.len() as u32 {
        0 => 0,
        rows => LANES_FRAME + LANE * rows,
    };
    let height = HEADER + lanes + PANEL * report.charts.len() as u32;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (header, rest) = root.split_vertically(HEADER);
    draw_header(&header, title, machine)?;
    let (ratios, charts) = rest.split_vertically(lanes);
    if !rated.is_empty() {
        draw_ratios(&ratios, &rated)?;
    }
    for (area, chart) in charts
        .split_evenly((report.charts.len().max(1), 1))
        .iter()
        .zip(&report.charts)
    {
        draw_chart(area, chart)?;
    }
    root.present()?;
    Ok(())
}

fn draw_header(area: &Area<'_>, title: &str, machine: &Machine) -> Drawn {
    let large = ("sans-serif", 20).into_font().color(&INK);
    let small = ("sans-serif", 12).into_font().color(&INK);
    area.draw(&Text::new(
        format!("sublet-lab bench {title}"),
        (16, 12),
        large,
    ))?;
    area.draw(&Text::new(machine.to_string(), (16, 40), small))?;
    Ok(())
}

/// Ratios on a logarithmic lane each: a dot is ours ÷ the peer's, a tick the goal.
fn draw_ratios(area: &Area<'_>, rows: &[&Row]) -> Drawn {
    let (low, high) = ratio_span(rows);
    let lane = Lane {
        left: NAMES as f64,
        right: (WIDTH - RATIOS) as f64,
        low,
        high,
    };
    let bottom = (30 + LANE * rows.len() as u32) as i32;
    let small = ("sans-serif", 12).into_font().color(&INK);
    for mark in RATIO_MARKS.iter().filter(|m| (low..=high).contains(*m)) {
        let x = lane.x(*mark);
        let ink = if *mark == 1.0 { INK } else { GRID };
        area.draw(&PathElement::new(vec![(x, 22), (x, bottom)], ink))?;
        area.draw(&Text::new(
            format!("{mark}"),
            (x - 8, bottom + 4),
            small.clone(),
        ))?;
    }
    let what = "ours ÷ the peer's (dot), goal (tick)";
    area.draw(&Text::new(what, (NAMES as i32, bottom + 20), small))?;
    for (place, row) in rows.iter().enumerate() {
        draw_lane(area, &lane, row, 30 + (LANE * place as u32) as i32)?;
    }
    Ok(())
}

const RATIO_MARKS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0,
];

fn ratio_span(rows: &[&Row]) -> (f64, f64) {
    let all = rows
        .iter()
        .flat_map(|row| [row.ratio(), row.ratio_goal()])
        .flatten()
        .filter(|ratio| *ratio > 0.0);
    let (low, high) = all.fold((0.66f64, 1.5f64), |(l, h), r| (l.min(r), h.max(r)));
    (low / 1.1, high * 1.1)
}

struct Lane {
    left: f64,
    right: f64,
    low: f64,
    high: f64,
}

impl Lane {
    fn x(&self, ratio: f64) -> i32 {
        let place =
            (ratio.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        (self.left + place * (self.right - self.left)) as i32
    }
}

fn draw_lane(area: &Area<'_>, lane: &Lane, row: &Row, y: i32) -> Drawn {
    let ratio = row.ratio().unwrap_or(1.0);
    let ink = match row.holds() {
        Some(true) => GOOD,
        Some(false) => BAD,
        None => PLAIN,
    };
    let small = ("sans-serif", 12).into_font().color(&INK);
    area.draw(&Text::new(row.name().to_owned(), (16, y - 6), small))?;
    let (from, to) = (lane.x(1.0), lane.x(ratio));
    area.draw(&PathElement::new(
        vec![(from, y), (to, y)],
        ink.stroke_width(2),
    ))?;
    area.draw(&Circle::new((to, y), 5, ink.filled()))?;
    if let Some(goal) = row.ratio_goal() {
        let x = lane.x(goal);
        area.draw(&PathElement::new(
            vec![(x, y - 8), (x, y + 8)],
            INK.stroke_width(2),
        ))?;
    }
    let said = match row.holds() {
        Some(true) => format!("{ratio:.2} holds"),
        Some(false) => format!("{ratio:.2} missed"),
        None => format!("{ratio:.2}"),
    };
    let font = ("sans-serif", 12).into_font().color(&ink);
    area.draw(&Text::new(
        said,
        ((WIDTH - RATIOS) as i32 + 14, y - 6),
        font,
    ))?;
    Ok(())
}

fn draw_chart(area: &Area<'_>, chart: &Chart) -> Drawn {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let x_most = points().map(|p| p.0).fold(f64::MIN_POSITIVE, f64::max);
    let x_least = points().map(|p| p.0).fold(x_most, f64::min);
    let y_most = points().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut axes = ChartBuilder::on(area)
        .caption(&chart.title, ("sans-serif", 16))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(x_least..x_most, 0.0..y_most * 1.05)?;
    axes.configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .label_style(("sans-serif", 12))
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .draw()?;
    for (curve, ink) in chart.curves.iter().zip(CURVES.iter().cycle()) {
        let line = LineSeries::new(curve.points.iter().copied(), ink.stroke_width(2));
        axes.draw_series(line)?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], ink.stroke_width(2)));
    }
    axes.configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(("sans-serif", 12))
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .draw()?;
    Ok(())
}
