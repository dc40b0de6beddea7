//! How a command ends: what it leaves to the shell, and what it says when it fails.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// A command's exit status; they are `sublet`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It did not; why stands on stderr.
    Failed = 1,
    /// What was asked makes no sense.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// Says on stderr why it failed.
    pub(crate) fn failed(why: impl Display) -> Exit {
        say(why);
        Exit::Failed
    }

    /// Says on stderr what is wrong with the command line.
    pub(crate) fn usage(why: impl Display) -> Exit {
        say(why);
        Exit::Usage
    }

    /// How a command that only writes ended: a reader who has seen enough is no failure.
    pub(crate) fn written(result: io::Result<()>) -> Exit {
        match result {
            Ok(()) => Exit::Done,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Err(e) => Exit::failed(format_args!("cannot write: {e}")),
        }
    }
}

/// Where it cannot be written it is lost, and nothing else.
fn say(why: impl Display) {
    let _ = writeln!(io::stderr(), "sublet-lab: {why}");
}
