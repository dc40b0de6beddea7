//! A progress bar on stderr while simulations run. It is hidden if stderr is no terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sublet_sim::run;
use sublet_sim::scenario::Scenario;

const TEMPLATE: &str = "{prefix:32!} {msg:30!} {wide_bar} {pos}/{len} {elapsed}";

/// The progress of the simulations.
pub(super) struct SimProgress(ProgressBar);

impl SimProgress {
    /// Makes a bar. It is hidden if stderr is no terminal.
    pub(super) fn new() -> SimProgress {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        SimProgress(bar)
    }

    /// Adds `runs` runs to do.
    pub(super) fn expect(&self, runs: usize) {
        self.0.inc_length(runs as u64);
    }

    /// Shows what is going on between runs.
    pub(super) fn show_message(&self, what: String) {
        self.0.set_prefix(what);
    }

    /// Begins a run.
    pub(super) fn begin(&self, scenario: &Scenario) {
        self.0
            .set_prefix(format!("{}: {}", scenario.name, scenario.label()));
    }

    /// Shows how far the run is.
    pub(super) fn update(&self, at: run::RunProgress) {
        if !self.0.is_hidden() {
            let message = format!("{:.0} s, {} events", at.at.secs(), at.events);
            self.0.set_message(message);
        }
    }

    /// Ends the run.
    pub(super) fn end(&self) {
        self.0.inc(1);
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
