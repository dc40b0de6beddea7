//! How a command ends: what it leaves to the shell, and what it says when it fails.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use sublet_client::CallError;

/// A command's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It did not; why stands on stderr.
    Failed = 1,
    /// What was asked makes no sense.
    Usage = 2,
    /// There is no daemon to ask.
    Unreachable = 3,
}

/// Says something on stderr. Where it cannot be written it is lost, and nothing else: a full disk ends no daemon.
pub(crate) fn say(what: impl Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// Says on stderr why it failed.
    pub(crate) fn failed(why: impl Display) -> Exit {
        say(format_args!("sublet: {why}"));
        Exit::Failed
    }

    /// Says on stderr what is wrong with the command line.
    pub(crate) fn usage(why: impl Display) -> Exit {
        say(format_args!("sublet: {why}"));
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

    /// Says why the daemon did not do it, and what to type.
    pub(crate) fn uncalled(error: &CallError) -> Exit {
        match error {
            CallError::Unreachable { source, .. } => {
                say(format_args!("sublet: {error}"));
                say(next_step(source.kind()));
                Exit::Unreachable
            }
            CallError::Untrusted { .. } => Exit::failed(format_args!(
                "{error}; name who signed its certificate, or the certificate itself: --admin-ca FILE"
            )),
            CallError::Refused(refusal) if !refusal.hint.is_empty() => {
                Exit::failed(format_args!("{error}; {}", refusal.hint))
            }
            _ => Exit::failed(error),
        }
    }
}

fn next_step(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::PermissionDenied => {
            "The admin socket is its owner's: ask as the daemon's user, or as root (sudo)."
        }
        _ => {
            "Start one: sublet serve. If it runs elsewhere, say where its admin socket is: --admin PATH."
        }
    }
}
