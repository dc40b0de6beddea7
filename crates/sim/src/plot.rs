//! A report as one SVG: who used how much over time, a panel for each run; then running times, then hits.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::outcome::{Outcome, Samples};
use crate::report::{Report, Row};

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct PlotError(String);

const WIDTH: u32 = 1100;
const HEADER: u32 = 48;
const PANEL: u32 = 320;
/// Tenants that get a curve of their own.
const CURVES_MAX: usize = 12;
/// Runs that get a panel over time: a comparison of more shows the bars alone for the others.
const PANELS_MAX: usize = 12;

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
/// Okabe and Ito's colours, told apart by colour-blind readers too.
const COLOURS: [RGBColor; 7] = [
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

/// Draws `report`; returns the SVG's text.
///
/// # Errors
///
/// None that we know of: text in memory takes everything.
pub fn draw(report: &Report) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw_all(&mut svg, report).map_err(|cause| PlotError(cause.to_string()))?;
    Ok(svg)
}

/// Groups of bars, a group a row and a bar a label.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// In what.
    pub unit: &'static str,
    /// Its groups; the first [`GROUPS_MAX`] are drawn.
    pub rows: Vec<Row>,
    /// What each bar of a group is.
    pub labels: Vec<String>,
}

/// Draws panels below each other; returns the SVG's text.
///
/// # Errors
///
/// As [`draw`].
pub fn draw_panels(title: &str, panels: &[Panel]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw_each(&mut svg, title, panels).map_err(|cause| PlotError(cause.to_string()))?;
    Ok(svg)
}

fn draw_each(svg: &mut String, title: &str, panels: &[Panel]) -> Drawn {
    let height = HEADER + PANEL * panels.len() as u32;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (header, rest) = root.split_vertically(HEADER);
    draw_title(&header, title)?;
    let areas = rest.split_evenly((panels.len().max(1), 1));
    for (panel, area) in panels.iter().zip(&areas) {
        let rows: Vec<&Row> = panel.rows.iter().take(GROUPS_MAX).collect();
        let labels: Vec<&str> = panel.labels.iter().map(String::as_str).collect();
        draw_bars(area, &panel.title, panel.unit, &rows, &labels)?;
    }
    root.present()?;
    Ok(())
}

fn draw_all(svg: &mut String, report: &Report) -> Drawn {
    let runs: Vec<&Outcome> = report.runs.iter().take(PANELS_MAX).collect();
    let rows = report.rows();
    let bars = [
        ("running times", "s", rows_of(&rows, "s")),
        ("tier hits", "% of gets", rows_of(&rows, "% of gets")),
    ];
    let bars: Vec<_> = bars
        .into_iter()
        .filter(|(.., rows)| !rows.is_empty())
        .collect();
    let panels = runs.len() + bars.len();
    let root = SVGBackend::with_string(svg, (WIDTH, HEADER + PANEL * panels as u32));
    let root = root.into_drawing_area();
    root.fill(&WHITE)?;
    let (header, rest) = root.split_vertically(HEADER);
    draw_header(&header, report)?;
    let areas = rest.split_evenly((panels.max(1), 1));
    let mut areas = areas.iter();
    for (run, area) in runs.iter().zip(&mut areas) {
        draw_use(area, run)?;
    }
    let labels: Vec<&str> = report.runs.iter().map(|run| run.label.as_str()).collect();
    for ((title, unit, rows), area) in bars.iter().zip(areas) {
        draw_bars(area, title, unit, rows, &labels)?;
    }
    root.present()?;
    Ok(())
}

/// Groups of bars in a panel at most.
pub const GROUPS_MAX: usize = 16;
/// With more groups than this their names are smaller.
const GROUPS_WIDE: usize = 8;

fn rows_of<'a>(rows: &'a [Row], unit: &str) -> Vec<&'a Row> {
    let fitting = rows.iter().filter(|row| row.unit == unit);
    fitting.take(GROUPS_MAX).collect()
}

fn draw_header(area: &Area<'_>, report: &Report) -> Drawn {
    let Some(first) = report.runs.first() else {
        return Ok(());
    };
    draw_title(
        area,
        &format!("sublet-lab sim {}, seed {}", first.scenario, first.seed),
    )
}

fn draw_title(area: &Area<'_>, title: &str) -> Drawn {
    let large = ("sans-serif", 20).into_font().color(&INK);
    area.draw(&Text::new(title, (16, 14), large))?;
    Ok(())
}

const MIB_PAGES: f64 = 256.0;

/// Use of each tenant over time, targets dashed, as SmarTmem's figures 4, 6, 8 and 10.
fn draw_use(area: &Area<'_>, run: &Outcome) -> Drawn {
    let samples = &run.samples;
    let most = samples.total.iter().copied().max().unwrap_or(1).max(1) as f64 / MIB_PAGES;
    let end = samples.secs.last().copied().unwrap_or(1.0).max(1e-9);
    let mut axes = ChartBuilder::on(area)
        .caption(&run.label, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.05)?;
    axes.configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .label_style(("sans-serif", 12))
        .x_desc("virtual seconds")
        .y_desc("tier, MiB")
        .draw()?;
    axes.draw_series(LineSeries::new(
        points(samples, &samples.total),
        GRID.stroke_width(2),
    ))?;
    for (number, vm) in run.vms.iter().enumerate().take(CURVES_MAX) {
        let ink = COLOURS[number % COLOURS.len()];
        let used = points(samples, &samples.used[number]);
        axes.draw_series(LineSeries::new(used, ink.stroke_width(2)))?
            .label(&vm.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], ink.stroke_width(2)));
        let target = target_points(samples, number, most);
        axes.draw_series(DashedLineSeries::new(target, 4, 4, ink.mix(0.6).into()))?;
    }
    axes.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 12))
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .draw()?;
    Ok(())
}

fn points(samples: &Samples, pages: &[u64]) -> Vec<(f64, f64)> {
    let mib = pages.iter().map(|pages| *pages as f64 / MIB_PAGES);
    samples.secs.iter().copied().zip(mib).collect()
}

fn target_points(samples: &Samples, number: usize, most: f64) -> Vec<(f64, f64)> {
    let pairs = samples.secs.iter().zip(&samples.targets[number]);
    let point = |(secs, target): (&f64, &Option<u64>)| {
        Some((*secs, ((*target)? as f64 / MIB_PAGES).min(most * 1.04)))
    };
    pairs.filter_map(point).collect()
}

/// Bars in groups: a group a row, a bar a run.
fn draw_bars(area: &Area<'_>, title: &str, unit: &str, rows: &[&Row], labels: &[&str]) -> Drawn {
    let values = rows.iter().flat_map(|row| row.values.iter().flatten());
    let most = values.fold(f64::MIN_POSITIVE, |most, value| most.max(*value));
    let mut axes = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..rows.len() as f64, 0.0..most * 1.2)?;
    let name = |x: &f64| group_name(rows, *x);
    let label_size = if rows.len() > GROUPS_WIDE { 9 } else { 12 };
    axes.configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .label_style(("sans-serif", label_size))
        .x_labels(2 * rows.len() + 1)
        .x_label_formatter(&name)
        .y_desc(unit)
        .draw()?;
    let width = 0.8 / labels.len().max(1) as f64;
    for (run, label) in labels.iter().enumerate() {
        let ink = COLOURS[run % COLOURS.len()].mix(strength(run));
        let bar = |(group, row): (usize, &&Row)| {
            let left = group as f64 + 0.1 + width * run as f64;
            let value = row.values.get(run).copied().flatten()?;
            Some(Rectangle::new(
                [(left, 0.0), (left + width * 0.9, value)],
                ink.filled(),
            ))
        };
        axes.draw_series(rows.iter().enumerate().filter_map(bar))?
            .label(*label)
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

/// Beyond the last colour they begin anew, paler.
fn strength(run: usize) -> f64 {
    if run < COLOURS.len() { 1.0 } else { 0.45 }
}

/// The group in whose middle `x` is.
fn group_name(rows: &[&Row], x: f64) -> String {
    let is_middle = (x.fract() - 0.5).abs() < 0.01;
    let row = rows.get(x as usize).filter(|_| is_middle && x >= 0.0);
    row.map_or(String::new(), |row| format!("{} {}", row.vm, row.figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Watch, run};
    use crate::scenario::Scenario;

    fn report() -> Report {
        let text = "name = \"s\"\n[host]\nmemory = \"1MiB\"\n[policy]\nname = \"static-alloc\"\n\
                    [[vm]]\nname = \"a\"\ncount = 2\nmemory = \"1MiB\"\n\
                    [vm.workload.scan]\nsize = \"2MiB\"\npasses = 3\n";
        let scenario = Scenario::parse("s", text).expect("it is right");
        let mut no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let outcome = run(&scenario, &mut no_files, Watch::Full, &mut |_| {});
        Report::of(vec![outcome.expect("it runs")])
    }

    #[test]
    fn a_plot_is_the_same_bytes_for_the_same_run_and_shows_everyone() {
        let (first, second) = (draw(&report()), draw(&report()));
        let svg = first.expect("it draws");
        assert_eq!(svg, second.expect("it draws"));
        for shown in [
            "<svg",
            "a-1",
            "a-2",
            "static-alloc",
            "running times",
            "tier hits",
            "a-1 all",
        ] {
            assert!(svg.contains(shown), "{shown}");
        }
    }

    #[test]
    fn a_report_of_nothing_draws_nothing() {
        assert!(draw(&Report::default()).expect("it draws").contains("<svg"));
    }
}
