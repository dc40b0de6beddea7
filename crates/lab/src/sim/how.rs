//! How every simulation is run and shown.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sublet_sim::outcome::Outcome;
use sublet_sim::papers::{Experiment, Plan};
use sublet_sim::report::Report;
use sublet_sim::run::Watch;
use sublet_sim::scenario::Scenario;
use sublet_types::Shrinking;

use super::error::SimError;
use super::play;
use super::progress::Progress;
use crate::exit::Exit;
use crate::plot_file::plot_file;

/// How every simulation is run and shown.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// All luck comes from this number; the scenario's own where it is not given, 1 where tenants share, else 0.
    #[arg(long, global = true, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Print the outcome as JSON (docs/simulator/scenarios.md).
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Draw the outcome into this file.
    #[arg(long, global = true, value_name = "FILE.svg", value_parser = plot_file)]
    pub(super) plot: Option<PathBuf>,
    /// Let no judge watch the store: faster, and with less memory. None watches where tenants share, and guests' disks.
    #[arg(long, global = true)]
    pub(super) unwatched: bool,
    /// Have the judges count all frames and figures after every event, not only now and then: slow.
    #[arg(long, global = true, conflicts_with = "unwatched")]
    pub(super) closely: bool,
}

impl How {
    /// The seed of what has none of its own.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    pub(super) fn watch(&self) -> Watch {
        match (self.unwatched, self.closely) {
            (true, _) => Watch::Nobody,
            (false, true) => Watch::Closely,
            (false, false) => Watch::Full,
        }
    }

    /// Runs each of `scenarios`, whose files lie in `folder`.
    pub(super) fn play(
        &self,
        scenarios: Vec<Scenario>,
        folder: &Path,
        progress: &Progress,
    ) -> Result<Vec<Outcome>, SimError> {
        let seeded = scenarios.into_iter().map(|scenario| Scenario {
            seed: self.seed.unwrap_or(scenario.seed),
            ..scenario
        });
        let seeded: Vec<Scenario> = seeded.collect();
        play::all(&seeded, folder, self.watch(), progress)
    }

    /// Plays a paper's experiments, a report each, with what the paper found.
    pub(super) fn play_paper(
        &self,
        paper: &str,
        shrinks: &[Shrinking],
    ) -> Result<Vec<Report>, SimError> {
        let experiments: Vec<&Experiment> = Experiment::of_paper(paper).collect();
        self.play_experiments(&experiments, shrinks)
    }

    pub(super) fn play_experiments(
        &self,
        experiments: &[&Experiment],
        shrinks: &[Shrinking],
    ) -> Result<Vec<Report>, SimError> {
        let plan = Plan::of(experiments, shrinks)?;
        let progress = Progress::new();
        let outcomes = self.play(plan.scenarios.clone(), Path::new(""), &progress)?;
        progress.finish();
        Ok(plan.reports(&outcomes))
    }

    /// Shows reports, and draws them: several into files that are numbered.
    pub(super) fn show(&self, reports: &[Report]) -> Result<Exit, SimError> {
        self.draw(reports)?;
        let written = Exit::written(self.write(reports));
        Ok(self.judged(reports, written))
    }

    pub(super) fn draw(&self, reports: &[Report]) -> Result<(), SimError> {
        for (number, report) in reports.iter().enumerate() {
            if let Some(plot) = self.plot_file(number, reports.len()) {
                write_plot(&plot, &sublet_sim::plot::draw(report)?)?;
            }
        }
        Ok(())
    }

    /// How it ended, or that judges found something.
    pub(super) fn judged(&self, reports: &[Report], written: Exit) -> Exit {
        match reports.iter().all(Report::holds) {
            true => written,
            false => Exit::failed("the judges found wrongs; please report them with the seed"),
        }
    }

    pub(super) fn plot_file(&self, number: usize, reports: usize) -> Option<PathBuf> {
        let plot = self.plot.as_ref()?;
        if reports == 1 {
            return Some(plot.clone());
        }
        let stem = plot.file_stem().unwrap_or_default().to_string_lossy();
        Some(plot.with_file_name(format!("{stem}-{}.svg", number + 1)))
    }

    pub(super) fn write(&self, reports: &[Report]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match (self.json, reports) {
            (true, [report]) => writeln!(out, "{:#}", report.json()),
            (true, reports) => {
                let reports: Vec<_> = reports.iter().map(Report::json).collect();
                writeln!(out, "{:#}", serde_json::Value::from(reports))
            }
            (false, reports) => reports
                .iter()
                .try_for_each(|report| writeln!(out, "{}", report.text())),
        }
    }
}

/// Writes a plot into the file that was named for it.
pub(super) fn write_plot(file: &Path, svg: &str) -> Result<(), SimError> {
    fs::write(file, svg).map_err(|cause| SimError::Unwritable {
        file: file.display().to_string(),
        cause,
    })
}
