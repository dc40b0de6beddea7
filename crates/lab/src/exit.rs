//! How a command ends: its exit status, and its message if it fails.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// A command's exit status. The values are those of `sublet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It did not. The reason stands on stderr.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// Prints on stderr why it failed.
    pub(crate) fn failed(why: impl Display) -> Exit {
        print_error(why);
        Exit::Failed
    }

    /// Prints on stderr what is wrong with the command line.
    pub(crate) fn usage(why: impl Display) -> Exit {
        print_error(why);
        Exit::Usage
    }

    /// The result of a command that only writes. It is no failure if the reader stops early.
    pub(crate) fn written(result: io::Result<()>) -> Exit {
        match result {
            Ok(()) => Exit::Done,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Err(e) => Exit::failed(format_args!("cannot write: {e}")),
        }
    }
}

/// Prints an error. If stderr cannot be written, the message is lost.
fn print_error(why: impl Display) {
    let _ = writeln!(io::stderr(), "sublet-lab: {why}");
}
