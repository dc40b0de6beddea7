//! A progress bar on stderr; nothing where that is no terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "{msg:44!} {wide_bar} {pos}/{len} {elapsed}";

/// How far a bench has come.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar that nobody sees where stderr is no terminal.
    pub(super) fn new() -> Progress {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// There are `steps` more steps to do.
    pub(super) fn expect(&self, steps: usize) {
        self.0.inc_length(steps as u64);
    }

    /// Says what is going on now.
    pub(super) fn say(&self, what: impl Into<std::borrow::Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// One step is done.
    pub(super) fn step(&self) {
        self.0.inc(1);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
