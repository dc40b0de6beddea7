//! The only place that draws: a plot as the text of an SVG.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::elements::{BarGroup, Bars, Corner, Curves, GROUPS_MAX, Panel, Plot, RatioMark};

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct PlotError(String);

const WIDTH: u32 = 1100;
const HEADER: u32 = 64;
const PANEL: u32 = 360;
const LANE: u32 = 22;
const LANES_FRAME: u32 = 70;
/// Room for a ratio's name, left of its lane.
const NAMES: u32 = 430;
/// Room for a ratio, right of its lane.
const RATIOS: u32 = 130;

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const GOOD: RGBColor = RGBColor(0, 130, 90);
const BAD: RGBColor = RGBColor(200, 60, 40);
const PLAIN: RGBColor = RGBColor(70, 110, 180);
/// Okabe and Ito's colours. Colour-blind readers can tell them apart, too.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

type DrawResult = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Plot {
    /// Draws the plot. Returns the SVG's text.
    ///
    /// # Errors
    ///
    /// None that we know of: text in memory takes everything.
    pub fn draw(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        draw_plot(&mut svg, self).map_err(|cause| PlotError(cause.to_string()))?;
        Ok(svg)
    }
}

fn draw_plot(svg: &mut String, plot: &Plot) -> DrawResult {
    let heights = plot.panels.iter().map(height);
    let root = SVGBackend::with_string(svg, (WIDTH, HEADER + heights.sum::<u32>()));
    let root = root.into_drawing_area();
    root.fill(&WHITE)?;
    let (header, mut rest) = root.split_vertically(HEADER);
    let large = ("sans-serif", 20).into_font().color(&INK);
    let small = ("sans-serif", 12).into_font().color(&INK);
    header.draw(&Text::new(plot.title.as_str(), (16, 12), large))?;
    header.draw(&Text::new(plot.about.as_str(), (16, 40), small))?;
    for panel in &plot.panels {
        let (area, below) = rest.split_vertically(height(panel));
        match panel {
            Panel::Curves(curves) => draw_curves(&area, curves)?,
            Panel::Bars(bars) => draw_bars(&area, bars)?,
            Panel::Ratios(ratios) => draw_ratios(&area, ratios)?,
        }
        rest = below;
    }
    root.present()?;
    Ok(())
}

fn height(panel: &Panel) -> u32 {
    match panel {
        Panel::Curves(_) | Panel::Bars(_) => PANEL,
        Panel::Ratios(ratios) => LANES_FRAME + LANE * ratios.len() as u32,
    }
}

fn draw_curves(area: &Area<'_>, curves: &Curves) -> DrawResult {
    let named = curves.curves.iter().flat_map(|curve| &curve.points);
    let points = || named.clone().chain(&curves.behind);
    let x_most = points().map(|p| p.0).fold(f64::MIN_POSITIVE, f64::max);
    let x_least = points().map(|p| p.0).fold(x_most, f64::min);
    let y_most = points().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut axes = ChartBuilder::on(area)
        .caption(&curves.title, ("sans-serif", 16))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(x_least..x_most, 0.0..y_most * 1.05)?;
    axes.configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .label_style(("sans-serif", 12))
        .x_desc(&curves.x)
        .y_desc(&curves.y)
        .draw()?;
    let behind = curves.behind.iter().copied();
    axes.draw_series(LineSeries::new(behind, GRID.stroke_width(2)))?;
    for (curve, ink) in curves.curves.iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(curve.points.iter().copied(), ink.stroke_width(2));
        axes.draw_series(line)?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], ink.stroke_width(2)));
        let dashed = curve.dashed.iter().copied();
        axes.draw_series(DashedLineSeries::new(dashed, 4, 4, ink.mix(0.6).into()))?;
    }
    let corner = match curves.names {
        Corner::UpperLeft => SeriesLabelPosition::UpperLeft,
        Corner::LowerRight => SeriesLabelPosition::LowerRight,
    };
    axes.configure_series_labels()
        .position(corner)
        .label_font(("sans-serif", 12))
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .draw()?;
    Ok(())
}

/// With more groups than this their names are smaller.
const GROUPS_WIDE: usize = 8;

/// Bars in groups.
fn draw_bars(area: &Area<'_>, bars: &Bars) -> DrawResult {
    let groups = &bars.groups[..bars.groups.len().min(GROUPS_MAX)];
    let values = groups
        .iter()
        .flat_map(|group| group.values.iter().flatten());
    let most = values.fold(f64::MIN_POSITIVE, |most, value| most.max(*value));
    let mut axes = ChartBuilder::on(area)
        .caption(&bars.title, ("sans-serif", 16))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(
            0.0..groups.len() as f64,
            0.0..most * headroom(bars.labels.len()),
        )?;
    let name = |x: &f64| group_name(groups, *x);
    let label_size = if groups.len() > GROUPS_WIDE { 9 } else { 12 };
    axes.configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .label_style(("sans-serif", label_size))
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&name)
        .y_desc(bars.unit)
        .draw()?;
    let width = 0.8 / bars.labels.len().max(1) as f64;
    for (place, label) in bars.labels.iter().enumerate() {
        let ink = COLOURS[place % COLOURS.len()].mix(strength(place));
        let bar = |(number, group): (usize, &BarGroup)| {
            let left = number as f64 + 0.1 + width * place as f64;
            let value = group.values.get(place).copied().flatten()?;
            Some(Rectangle::new(
                [(left, 0.0), (left + width * 0.9, value)],
                ink.filled(),
            ))
        };
        axes.draw_series(groups.iter().enumerate().filter_map(bar))?
            .label(label)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], ink.filled()));
    }
    axes.configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 11))
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .draw()?;
    Ok(())
}

/// How much higher than the highest bar a panel is, so that the list of so many labels covers no bar.
fn headroom(labels: usize) -> f64 {
    let list = 0.08 + 0.065 * labels as f64;
    1.0 / (1.0 - list.min(0.5))
}

/// The opacity of a curve. Beyond the last colour the colours begin anew, paler.
fn strength(place: usize) -> f64 {
    if place < COLOURS.len() { 1.0 } else { 0.45 }
}

/// The group that has `x` in its middle.
fn group_name(groups: &[BarGroup], x: f64) -> String {
    let is_middle = (x.fract() - 0.5).abs() < 0.01;
    let group = groups.get(x as usize).filter(|_| is_middle && x >= 0.0);
    group.map_or(String::new(), |group| group.name.clone())
}

/// Ratios, each on a logarithmic lane. A dot is ours ÷ the peer's, and a tick is the goal.
fn draw_ratios(area: &Area<'_>, ratios: &[RatioMark]) -> DrawResult {
    let (low, high) = ratio_span(ratios);
    let lane = RatioLane {
        left: NAMES as f64,
        right: (WIDTH - RATIOS) as f64,
        low,
        high,
    };
    let bottom = (30 + LANE * ratios.len() as u32) as i32;
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
    for (place, ratio) in ratios.iter().enumerate() {
        draw_lane(area, &lane, ratio, 30 + (LANE * place as u32) as i32)?;
    }
    Ok(())
}

const RATIO_MARKS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0,
];

fn ratio_span(ratios: &[RatioMark]) -> (f64, f64) {
    let all = ratios
        .iter()
        .flat_map(|of| [Some(of.ratio), of.goal])
        .flatten()
        .filter(|ratio| *ratio > 0.0);
    let (low, high) = all.fold((0.66f64, 1.5f64), |(l, h), r| (l.min(r), h.max(r)));
    (low / 1.1, high * 1.1)
}

struct RatioLane {
    left: f64,
    right: f64,
    low: f64,
    high: f64,
}

impl RatioLane {
    fn x(&self, ratio: f64) -> i32 {
        let place =
            (ratio.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        (self.left + place * (self.right - self.left)) as i32
    }
}

fn draw_lane(area: &Area<'_>, lane: &RatioLane, of: &RatioMark, y: i32) -> DrawResult {
    let ratio = of.ratio;
    let ink = match of.holds {
        Some(true) => GOOD,
        Some(false) => BAD,
        None => PLAIN,
    };
    let small = ("sans-serif", 12).into_font().color(&INK);
    area.draw(&Text::new(of.name.as_str(), (16, y - 6), small))?;
    let (from, to) = (lane.x(1.0), lane.x(ratio));
    area.draw(&PathElement::new(
        vec![(from, y), (to, y)],
        ink.stroke_width(2),
    ))?;
    area.draw(&Circle::new((to, y), 5, ink.filled()))?;
    if let Some(goal) = of.goal {
        let x = lane.x(goal);
        area.draw(&PathElement::new(
            vec![(x, y - 8), (x, y + 8)],
            INK.stroke_width(2),
        ))?;
    }
    let label = match of.holds {
        Some(true) => format!("{ratio:.2} holds"),
        Some(false) => format!("{ratio:.2} missed"),
        None => format!("{ratio:.2}"),
    };
    let font = ("sans-serif", 12).into_font().color(&ink);
    area.draw(&Text::new(
        label,
        ((WIDTH - RATIOS) as i32 + 14, y - 6),
        font,
    ))?;
    Ok(())
}
