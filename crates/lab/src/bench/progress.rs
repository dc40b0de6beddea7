//! A progress bar on stderr. It is hidden if stderr is no terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "{msg:44!} {wide_bar} {pos}/{len} {elapsed}";

/// The progress of a bench.
pub(super) struct BenchProgress(ProgressBar);

impl BenchProgress {
    /// Makes a bar. It is hidden if stderr is no terminal.
    pub(super) fn new() -> BenchProgress {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        BenchProgress(bar)
    }

    /// Adds `steps` steps to do.
    pub(super) fn expect(&self, steps: usize) {
        self.0.inc_length(steps as u64);
    }

    /// Shows what is going on.
    pub(super) fn show_message(&self, what: impl Into<std::borrow::Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// Ends one step.
    pub(super) fn step(&self) {
        self.0.inc(1);
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
