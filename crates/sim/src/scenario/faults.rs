//! What can be wrong with a scenario.

use std::ops::Range;

use sublet_policy::catalogue::PolicyChoiceError;
use sublet_types::{Bytes, TenantNameError, explain_serde};

use super::vms::{VMS_MAX, VmSpec};
use crate::traces::TraceFormatError;

/// A scenario that was refused: the place and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{file}, line {line}: {fault}")]
pub struct ScenarioError {
    file: String,
    /// The line, from 1.
    pub line: usize,
    fault: ScenarioFault,
}

/// Why.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScenarioFault {
    #[error("{message}{}", meant(.nearest.as_deref()))]
    Toml {
        message: String,
        nearest: Option<String>,
    },
    #[error(transparent)]
    Policy(PolicyChoiceError),
    #[error("a policy decides at most once per second; write interval = \"1s\" or more")]
    Interval,
    #[error("it ends before it has warmed up; write a duration above warm_up")]
    NeverWarm,
    #[error("it has {0} virtual machines; write 1 to {VMS_MAX} of them as [[vm]]")]
    VmCount(usize),
    #[error("a speed of {0} goes nowhere; write a number above 0")]
    Speed(f64),
    #[error(transparent)]
    Name(TenantNameError),
    #[error("two virtual machines are called {0:?}; give each a name of its own, or use count")]
    Twice(String),
    #[error("a virtual machine needs at least {0} beside what is reserved")]
    TooSmall(Bytes),
    #[error("a read-ahead of {0} pages; write 1, 2, 4, 8, 16, 32 or 64")]
    ReadAhead(u32),
    #[error("the floor is above the ceiling; lower one or raise the other")]
    FloorAboveCeiling,
    #[error("there is no virtual machine {name:?}{}", meant(.nearest.as_deref()))]
    UnknownVm {
        name: String,
        nearest: Option<String>,
    },
    #[error("a mark of no virtual machine is never reached; write vms = [\"NAME\"]")]
    NobodyMarked,
    #[error("{vm:?} never begins {begin:?}; it begins {has}")]
    UnknownStretch {
        vm: String,
        begin: String,
        has: String,
    },
    #[error("it waits for one that waits for it; give one of them a start = \"TIME\"")]
    Circle,
    #[error("write_share and delete_share make {0} together; write 1 at the most")]
    Shares(f64),
    #[error("requests that arrive by themselves do not think between; leave out think or arrivals")]
    ThinkingArrivals,
    #[error(transparent)]
    Format(TraceFormatError),
}

/// A message lists this many stretches after a wrong one.
const STRETCHES_NAMED: usize = 10;

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |word| format!("; did you mean `{word}`?"))
}

impl ScenarioFault {
    pub(super) fn unknown_stretch(vm: &VmSpec, begin: &str) -> ScenarioFault {
        let mut stretches = vm.workload.stretches().map(|name| format!("{name:?}"));
        let named: Vec<String> = stretches.by_ref().take(STRETCHES_NAMED).collect();
        let rest = stretches.next().map_or("", |_| ", …");
        let has = match named.is_empty() {
            true => "nothing that has a name: wait for a time, start = \"30s\"".to_owned(),
            false => format!("{}{rest}", named.join(", ")),
        };
        ScenarioFault::UnknownStretch {
            vm: vm.name.clone(),
            begin: begin.to_owned(),
            has,
        }
    }

    pub(super) fn unknown_vm<'a>(
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> ScenarioFault {
        ScenarioFault::UnknownVm {
            name: name.to_owned(),
            nearest: nearest(name, known),
        }
    }
}

impl ScenarioError {
    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> ScenarioError {
        let message = error.message().to_owned();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let wrong = quoted.next().unwrap_or("");
        let nearest = match message.starts_with("unknown ") {
            true => nearest(wrong, quoted),
            false => None,
        };
        ScenarioError {
            file: file.to_owned(),
            line: error.span().map_or(1, |span| line_at(text, span)),
            fault: ScenarioFault::Toml {
                message: explain_serde(&message),
                nearest,
            },
        }
    }

    pub(super) fn of_meaning(file: &str, line: usize, fault: ScenarioFault) -> ScenarioError {
        ScenarioError {
            file: file.to_owned(),
            line,
            fault,
        }
    }
}

/// The candidate that the author of `wrong` most likely meant, if one is near.
fn nearest<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let edits_max = (wrong.len() / 3).max(2);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= edits_max && *edits < candidate.len())
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

/// The line of a byte, from 1.
fn line_at(text: &str, span: Range<usize>) -> usize {
    text.bytes()
        .take(span.start)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}
