//! How every simulation is run and shown.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sublet_sim::outcome::RunOutcome;
use sublet_sim::papers::{Experiment, ExperimentPlan};
use sublet_sim::report::RunReport;
use sublet_sim::run::JudgeMode;
use sublet_sim::scenario::Scenario;
use sublet_types::ShrinkMode;

use super::error::SimError;
use super::progress::SimProgress;
use super::run_all;
use crate::exit::Exit;
use crate::plot_file::plot_file;

/// How every simulation is run and shown.
#[derive(Debug, clap::Args)]
pub(super) struct RunOptions {
    /// Draw all random numbers from this seed [default: the scenario's own, 1 if tenants share, else 0].
    #[arg(long, global = true, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Print the outcome as JSON (docs/simulator/scenarios.md).
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Draw the outcome into this file.
    #[arg(long, global = true, value_name = "FILE.svg", value_parser = plot_file)]
    pub(super) plot: Option<PathBuf>,
    /// Let no judge watch the store: this is faster and takes less memory. No judge watches shared arenas and guests'
    /// disks.
    #[arg(long, global = true)]
    pub(super) unwatched: bool,
    /// Let the judges count all frames and figures after every event, not only now and then: this is slow.
    #[arg(long, global = true, conflicts_with = "unwatched")]
    pub(super) closely: bool,
}

impl RunOptions {
    /// The seed of simulations that have none of their own.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    pub(super) fn judge_mode(&self) -> JudgeMode {
        match (self.unwatched, self.closely) {
            (true, _) => JudgeMode::Nobody,
            (false, true) => JudgeMode::Closely,
            (false, false) => JudgeMode::Full,
        }
    }

    /// Runs each of `scenarios`. Their files lie in `folder`.
    pub(super) fn play(
        &self,
        scenarios: Vec<Scenario>,
        folder: &Path,
        progress: &SimProgress,
    ) -> Result<Vec<RunOutcome>, SimError> {
        let seeded = scenarios.into_iter().map(|scenario| Scenario {
            seed: self.seed.unwrap_or(scenario.seed),
            ..scenario
        });
        let seeded: Vec<Scenario> = seeded.collect();
        run_all::all(&seeded, folder, self.judge_mode(), progress)
    }

    /// Runs a paper's experiments. Each gets a report with what the paper found.
    pub(super) fn play_paper(
        &self,
        paper: &str,
        shrinks: &[ShrinkMode],
    ) -> Result<Vec<RunReport>, SimError> {
        let experiments: Vec<&Experiment> = Experiment::of_paper(paper).collect();
        self.play_experiments(&experiments, shrinks)
    }

    pub(super) fn play_experiments(
        &self,
        experiments: &[&Experiment],
        shrinks: &[ShrinkMode],
    ) -> Result<Vec<RunReport>, SimError> {
        let plan = ExperimentPlan::of(experiments, shrinks)?;
        let progress = SimProgress::new();
        let outcomes = self.play(plan.scenarios.clone(), Path::new(""), &progress)?;
        progress.finish();
        Ok(plan.reports(&outcomes))
    }

    /// Shows reports and draws them. Several go into numbered files.
    pub(super) fn show(&self, reports: &[RunReport]) -> Result<Exit, SimError> {
        self.draw(reports)?;
        let written = Exit::written(self.write(reports));
        Ok(self.exit_of(reports, written))
    }

    pub(super) fn draw(&self, reports: &[RunReport]) -> Result<(), SimError> {
        for (number, report) in reports.iter().enumerate() {
            if let Some(plot) = self.plot_file(number, reports.len()) {
                write_plot(&plot, &sublet_sim::plot::draw(report)?)?;
            }
        }
        Ok(())
    }

    /// The exit status of the command: a failure if judges found something.
    pub(super) fn exit_of(&self, reports: &[RunReport], written: Exit) -> Exit {
        match reports.iter().all(RunReport::holds) {
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

    pub(super) fn write(&self, reports: &[RunReport]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match (self.json, reports) {
            (true, [report]) => writeln!(out, "{:#}", report.json()),
            (true, reports) => {
                let reports: Vec<_> = reports.iter().map(RunReport::json).collect();
                writeln!(out, "{:#}", serde_json::Value::from(reports))
            }
            (false, reports) => reports
                .iter()
                .try_for_each(|report| writeln!(out, "{}", report.text())),
        }
    }
}

/// Writes a plot into its file.
pub(super) fn write_plot(file: &Path, svg: &str) -> Result<(), SimError> {
    fs::write(file, svg).map_err(|cause| SimError::Unwritable {
        file: file.display().to_string(),
        cause,
    })
}
