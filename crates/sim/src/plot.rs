//! A report as one SVG: memory use over time with one panel per run, then running times, then hits.

mod drawing;
mod elements;

pub use drawing::PlotError;
pub use elements::{BarGroup, Bars, Corner, Curves, Panel, Plot, PlotCurve, RatioMark};

use crate::outcome::{RunOutcome, UsageSamples, VmOutcome};
use crate::report::{ReportRow, RunReport};

/// This many tenants get their own curve.
const CURVES_MAX: usize = 12;
/// This many runs get a panel over time. Further runs are shown in the bars only.
const PANELS_MAX: usize = 12;

/// Draws `report`. Returns the SVG's text.
///
/// # Errors
///
/// None that we know of: text in memory takes everything.
pub fn draw(report: &RunReport) -> Result<String, PlotError> {
    plot_of(report).draw()
}

fn plot_of(report: &RunReport) -> Plot {
    let title = report.runs.first().map_or(String::new(), |first| {
        format!("sublet-lab sim {}, seed {}", first.scenario, first.seed)
    });
    let labels: Vec<String> = report.runs.iter().map(|run| run.label.clone()).collect();
    let rows = report.rows();
    let bars = [("running times", "s"), ("tier hits", "% of gets")];
    let bars = bars.map(|(title, unit)| Bars {
        title: title.to_owned(),
        unit,
        groups: rows
            .iter()
            .filter(|row| row.unit == unit)
            .map(BarGroup::from)
            .collect(),
        labels: labels.clone(),
    });
    let bars = bars.into_iter().filter(|bars| !bars.groups.is_empty());
    let uses = report.runs.iter().take(PANELS_MAX).map(use_over_time);
    Plot {
        title,
        about: String::new(),
        panels: uses.chain(bars.map(Panel::Bars)).collect(),
    }
}

impl From<&ReportRow> for BarGroup {
    fn from(row: &ReportRow) -> BarGroup {
        BarGroup {
            name: format!("{} {}", row.vm, row.figure),
            values: row.values.clone(),
        }
    }
}

const MIB_PAGES: f64 = 256.0;

/// Memory use of each tenant over time, with dashed targets, like SmarTmem's figures 4, 6, 8 and 10.
fn use_over_time(run: &RunOutcome) -> Panel {
    let samples = &run.samples;
    let most = samples.total.iter().copied().max().unwrap_or(1).max(1) as f64 / MIB_PAGES;
    let curves = run.vms.iter().enumerate().take(CURVES_MAX);
    let curve = |(number, vm): (usize, &VmOutcome)| PlotCurve {
        name: vm.name.clone(),
        points: points(samples, &samples.used[number]),
        dashed: target_points(samples, number, most),
    };
    Panel::Curves(Curves {
        title: run.label.clone(),
        x: "virtual seconds".to_owned(),
        y: "tier, MiB".to_owned(),
        behind: points(samples, &samples.total),
        curves: curves.map(curve).collect(),
        names: Corner::UpperLeft,
    })
}

fn points(samples: &UsageSamples, pages: &[u64]) -> Vec<(f64, f64)> {
    let mib = pages.iter().map(|pages| *pages as f64 / MIB_PAGES);
    samples.secs.iter().copied().zip(mib).collect()
}

fn target_points(samples: &UsageSamples, number: usize, most: f64) -> Vec<(f64, f64)> {
    let pairs = samples.secs.iter().zip(&samples.targets[number]);
    let point = |(secs, target): (&f64, &Option<u64>)| {
        Some((*secs, ((*target)? as f64 / MIB_PAGES).min(most * 1.04)))
    };
    pairs.filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{JudgeMode, run};
    use crate::scenario::Scenario;

    fn report() -> RunReport {
        let text = "name = \"s\"\n[host]\nmemory = \"1MiB\"\n[policy]\nname = \"static-alloc\"\n\
                    [[vm]]\nname = \"a\"\ncount = 2\nmemory = \"1MiB\"\n\
                    [vm.workload.scan]\nsize = \"2MiB\"\npasses = 3\n";
        let scenario = Scenario::parse("s", text).expect("it is right");
        let mut no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let outcome = run(&scenario, &mut no_files, JudgeMode::Full, &mut |_| {});
        RunReport::of(vec![outcome.expect("it runs")])
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
        assert!(
            draw(&RunReport::default())
                .expect("it draws")
                .contains("<svg")
        );
    }
}
