//! A bar on stderr while simulations run; nothing where that is no terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sublet_sim::run;
use sublet_sim::scenario::Scenario;

const TEMPLATE: &str = "{prefix:32!} {msg:30!} {wide_bar} {pos}/{len} {elapsed}";

/// How far the simulations have come.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar that nobody sees where stderr is no terminal.
    pub(super) fn new() -> Progress {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// So many more runs follow.
    pub(super) fn expect(&self, runs: usize) {
        self.0.inc_length(runs as u64);
    }

    /// Says what is going on between runs.
    pub(super) fn say(&self, what: String) {
        self.0.set_prefix(what);
    }

    /// A run begins.
    pub(super) fn begin(&self, scenario: &Scenario) {
        self.0
            .set_prefix(format!("{}: {}", scenario.name, scenario.label()));
    }

    /// The run is so far.
    pub(super) fn hear(&self, at: run::Progress) {
        if !self.0.is_hidden() {
            let said = format!("{:.0} s, {} events", at.at.secs(), at.events);
            self.0.set_message(said);
        }
    }

    /// The run is done.
    pub(super) fn end(&self) {
        self.0.inc(1);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
