//! The commands that an experiment runs, written once for the program and for the page's readers.

use std::path::Path;

/// A simulation that an experiment runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    /// What a user types behind `sublet-lab sim`; the output's form is not among it.
    pub(super) arguments: &'static str,
    /// A scenario of the experiment's own that the command reads.
    pub(super) scenario: Option<EditedScenario>,
}

/// A shipped scenario with one change.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditedScenario {
    /// The file that the command names.
    pub(super) file: &'static str,
    /// The shipped scenario.
    pub(super) of: &'static str,
    /// The text that makes place for `to`.
    pub(super) from: &'static str,
    /// The text in its place.
    pub(super) to: &'static str,
}

/// The word in commands and scenarios for the folder of the public traces.
const FOLDER: &str = "FOLDER";

impl Command {
    /// Makes a command over shipped scenarios and traces alone.
    pub(super) const fn of(arguments: &'static str) -> Command {
        Command {
            arguments,
            scenario: None,
        }
    }

    /// The line as a user types it; the user is in the folder of the traces, if the command names any.
    pub(super) fn line(&self) -> String {
        format!("sublet-lab sim {}", self.arguments)
    }

    /// The arguments for a run: the scenario of its own lies in `scenarios`, the traces in `traces`.
    pub(super) fn resolved(&self, scenarios: &Path, traces: &Path) -> Vec<String> {
        let own = self.scenario.map(|edited| edited.file);
        let resolve = |word: &str| match word {
            FOLDER => traces.display().to_string(),
            word if Some(word) == own => scenarios.join(word).display().to_string(),
            word => word.to_owned(),
        };
        let words = self.arguments.split_whitespace().map(resolve);
        ["sim".to_owned()]
            .into_iter()
            .chain(words)
            .chain(["--json".to_owned()])
            .collect()
    }
}

impl EditedScenario {
    /// The scenario's text, if the shipped one has the text that is changed.
    pub(super) fn text(&self, traces: &Path) -> Option<String> {
        let shipped = sublet_sim::scenario::BuiltInScenario::find(self.of)?;
        let (before, after) = shipped.text.split_once(self.from)?;
        let to = self.to.replace(FOLDER, &traces.display().to_string());
        Some(format!("{before}{to}{after}"))
    }
}
