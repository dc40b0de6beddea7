//! How a command ends: its exit status, and its message if it fails.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use sublet_client::AdminError;

/// A command's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It did not. The reason stands on stderr.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// There is no daemon to ask.
    Unreachable = 3,
}

/// Prints a message on stderr. If that cannot be written, the message is lost and nothing else happens: a full disk
/// ends no daemon.
pub(crate) fn print_error(what: impl Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// Prints on stderr why it failed.
    pub(crate) fn failed(why: impl Display) -> Exit {
        print_error(format_args!("sublet: {why}"));
        Exit::Failed
    }

    /// Prints on stderr what is wrong with the command line.
    pub(crate) fn usage(why: impl Display) -> Exit {
        print_error(format_args!("sublet: {why}"));
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

    /// Says why the daemon did not do it, and what to type.
    pub(crate) fn call_failed(error: &AdminError) -> Exit {
        match error {
            AdminError::Unreachable { source, .. } => {
                print_error(format_args!("sublet: {error}"));
                print_error(next_step(source.kind()));
                Exit::Unreachable
            }
            AdminError::Untrusted { .. } => Exit::failed(format_args!(
                "{error}; name who signed its certificate, or the certificate itself: --admin-ca FILE"
            )),
            AdminError::Refused(refusal) if !refusal.hint.is_empty() => {
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
        io::ErrorKind::TimedOut => {
            "It may be stopped, or very busy: see its log, and what `ps -C sublet -o pid,stat,args` shows."
        }
        _ => {
            "Start one: sublet serve. If it runs elsewhere, say where its admin socket is: --admin PATH."
        }
    }
}
