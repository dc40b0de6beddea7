//! The results of a load for each amount of memory, as rows and as curves.

use super::super::super::chart::{Chart, ChartCurve};
use super::super::super::paired_rounds::PairedRounds;
use super::super::super::report::{BenchRow, RoundsSummary};

/// A figure of a load.
pub(in crate::bench) struct LoadFigure {
    /// The load.
    pub(in crate::bench) load: &'static str,
    /// What the figure counts.
    pub(in crate::bench) what: &'static str,
    pub(in crate::bench) unit: &'static str,
    /// The figures with memory, and with next to none.
    pub(in crate::bench) both: PairedRounds,
}

/// The figures of every amount of memory.
#[derive(Default)]
pub(super) struct SweepResults(Vec<(u64, Vec<LoadFigure>)>);

impl SweepResults {
    /// Adds the figures for memory of `share` per cent. They must be the same figures in the same order every time.
    pub(super) fn add(&mut self, share: u64, figures: Vec<LoadFigure>) {
        self.0.push((share, figures));
    }

    /// One row per figure and amount of memory.
    pub(super) fn rows(&self) -> impl Iterator<Item = BenchRow> {
        let all = self.0.iter();
        let each = all.flat_map(|(share, figures)| figures.iter().map(move |one| (share, one)));
        each.map(|(share, figure)| {
            let LoadFigure { load, what, .. } = figure;
            let name = format!("4 ms disk, {load}, memory for {share} %: {what}");
            figure.both.row(name, figure.unit)
        })
    }

    /// One chart per figure, if there is more than one amount of memory.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let figures = self.0.first().map_or(0, |(_, figures)| figures.len());
        let charted = (0..figures).filter(|_| self.0.len() > 1);
        charted.map(|place| self.chart(place)).collect()
    }

    fn chart(&self, place: usize) -> Chart {
        let (_, first) = &self.0[0];
        let LoadFigure {
            load, what, unit, ..
        } = &first[place];
        let curve = |name: &str, side: fn(&PairedRounds) -> &Vec<f64>| {
            let median =
                |figures: &Vec<LoadFigure>| RoundsSummary::of(side(&figures[place].both)).median;
            let points = self.0.iter();
            let mut points: Vec<(f64, f64)> = points
                .map(|(share, figures)| (*share as f64, median(figures)))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            ChartCurve {
                name: name.to_owned(),
                points,
            }
        };
        Chart {
            title: format!("4 ms disk, {load}: {what}"),
            x: "memory, % of the disk".to_owned(),
            y: (*unit).to_owned(),
            curves: vec![
                curve("with memory", |both| &both.ours),
                curve("the disk alone", |both| &both.peer),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(what: &'static str, ours: &[f64], peer: &[f64]) -> LoadFigure {
        LoadFigure {
            load: "a load",
            what,
            unit: "s",
            both: PairedRounds {
                ours: ours.to_vec(),
                peer: peer.to_vec(),
            },
        }
    }

    #[test]
    fn every_amount_has_its_rows_and_every_figure_its_chart() {
        let mut sweep = SweepResults::default();
        sweep.add(
            50,
            vec![
                figure("walk", &[1.0, 9.0, 2.0], &[8.0]),
                figure("pages", &[5.0], &[5.0]),
            ],
        );
        sweep.add(
            5,
            vec![
                figure("walk", &[4.0], &[8.0]),
                figure("pages", &[5.0], &[5.0]),
            ],
        );
        let rows: Vec<BenchRow> = sweep.rows().collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].name(), "4 ms disk, a load, memory for 50 %: walk");
        assert_eq!(rows[0].ratio(), Some(0.25));
        let charts = sweep.charts();
        assert_eq!(charts.len(), 2);
        assert_eq!(charts[0].title, "4 ms disk, a load: walk");
        assert_eq!(charts[0].curves[0].points, [(5.0, 4.0), (50.0, 2.0)]);
        assert_eq!(charts[0].curves[1].points, [(5.0, 8.0), (50.0, 8.0)]);
    }

    #[test]
    fn one_amount_makes_no_curve() {
        let mut sweep = SweepResults::default();
        assert!(sweep.charts().is_empty());
        sweep.add(5, vec![figure("walk", &[4.0], &[8.0])]);
        assert!(sweep.charts().is_empty());
    }
}
