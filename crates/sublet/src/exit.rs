//! How a command ends: what it leaves to the shell, and what it says when it fails.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// A command's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It did not; why stands on stderr.
    Failed = 1,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// Says on stderr why it failed.
    pub(crate) fn failed(why: impl Display) -> Exit {
        eprintln!("sublet: {why}");
        Exit::Failed
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
