//! The figures of one server, round by round.

use hdrhistogram::Histogram;

use super::super::report::{BenchRow, RoundsSummary};
use super::goals::goal;

/// What is measured in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawFigure {
    /// The median of the round trips.
    Median,
    /// The 99th percentile.
    Late,
    /// The 10th percentile.
    BestTenth,
    /// Pages a second.
    Rate,
    /// The server's CPU time a page.
    ServerCpu,
    /// The client's CPU time a page.
    ClientCpu,
}

/// All figures, in the order of their rows.
const FIGURES: [RawFigure; 6] = [
    RawFigure::Median,
    RawFigure::Late,
    RawFigure::BestTenth,
    RawFigure::Rate,
    RawFigure::ServerCpu,
    RawFigure::ClientCpu,
];

impl RawFigure {
    fn name(self) -> &'static str {
        match self {
            RawFigure::Median => "p50",
            RawFigure::Late => "p99",
            RawFigure::BestTenth => "best tenth",
            RawFigure::Rate => "pages",
            RawFigure::ServerCpu => "server CPU a page",
            RawFigure::ClientCpu => "client CPU a page",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            RawFigure::Median | RawFigure::Late | RawFigure::BestTenth => "µs",
            RawFigure::Rate => "/s",
            RawFigure::ServerCpu | RawFigure::ClientCpu => "ns",
        }
    }
}

/// One round of one server.
pub(super) struct RawRound {
    /// Nanoseconds of each message.
    pub(super) round_trips: Histogram<u64>,
    pub(super) pages: f64,
    pub(super) server_cpu_nanos: f64,
    pub(super) client_cpu_nanos: f64,
}

impl RawRound {
    fn figure(&self, figure: RawFigure) -> f64 {
        let quantile = |q| self.round_trips.value_at_quantile(q) as f64 / 1000.0;
        match figure {
            RawFigure::Median => quantile(0.5),
            RawFigure::Late => quantile(0.99),
            RawFigure::BestTenth => quantile(0.1),
            RawFigure::Rate => {
                let trips = self.round_trips.len() as f64;
                self.pages * 1e9 / (self.round_trips.mean() * trips)
            }
            RawFigure::ServerCpu => self.server_cpu_nanos / self.pages,
            RawFigure::ClientCpu => self.client_cpu_nanos / self.pages,
        }
    }
}

/// All rounds of one server with messages of one length.
#[derive(Default)]
pub(super) struct RawFigures {
    rounds: [Vec<f64>; FIGURES.len()],
}

impl RawFigures {
    /// Adds a round.
    pub(super) fn push(&mut self, round: &RawRound) {
        for (rounds, figure) in self.rounds.iter_mut().zip(FIGURES) {
            rounds.push(round.figure(figure));
        }
    }

    /// The median over the rounds.
    pub(super) fn median(&self, figure: RawFigure) -> f64 {
        let place = FIGURES.iter().position(|known| *known == figure);
        RoundsSummary::of(&self.rounds[place.unwrap_or_default()]).median
    }

    /// The rows that show these figures beside a peer's.
    pub(super) fn rows(&self, pages: u16, peer: &str, of_peer: &RawFigures) -> Vec<BenchRow> {
        let row = |(place, figure): (usize, RawFigure)| {
            let name = format!("read of {pages}, beside {peer}: {}", figure.name());
            let ours = RoundsSummary::of(&self.rounds[place]);
            let row = BenchRow::new(name, figure.unit(), ours)
                .against(RoundsSummary::of(&of_peer.rounds[place]));
            match goal(pages, peer, figure) {
                Some(goal) => row.goal(goal),
                None => row,
            }
        };
        FIGURES.into_iter().enumerate().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Goal;

    #[test]
    fn a_round_gives_its_figures_a_page() {
        let mut round_trips = Histogram::new(3).expect("three digits");
        for micros in [10, 20, 30] {
            round_trips.record(micros * 1000).expect("it grows");
        }
        let round = RawRound {
            round_trips,
            pages: 24.0,
            server_cpu_nanos: 48_000.0,
            client_cpu_nanos: 24_000.0,
        };
        let mut figures = RawFigures::default();
        figures.push(&round);
        let near = |figure, expected: f64| {
            let ratio = figures.median(figure) / expected;
            assert!((0.99..1.01).contains(&ratio), "{figure:?} {ratio}");
        };
        near(RawFigure::Median, 20.0);
        near(RawFigure::Rate, 24.0 / 60e-6);
        near(RawFigure::ServerCpu, 2000.0);
        near(RawFigure::ClientCpu, 1000.0);
        let rows = figures.rows(8, super::super::goals::NBDKIT, &figures);
        assert_eq!(rows[0].ratio_goal(), Some(0.4));
        assert_eq!(goal(8, "redis", RawFigure::Median), None::<Goal>);
    }
}
