//! One command line, run so that its output is kept in a log, and seen at once where it is to be.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use crate::checkout::root;
use crate::machine;

/// A program with its arguments and environment, run in the workspace's folder.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Exit code 0.
    Good,
    /// Any other exit code, or a signal, or it could not start.
    Bad,
    /// It was ended at its deadline.
    TooLong,
}

/// Where a command's output is kept.
pub(crate) struct Log {
    pub(crate) file: File,
    /// Whether it is shown, too.
    pub(crate) is_shown: bool,
}

impl Log {
    fn say(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        if self.is_shown {
            let mut shown = io::stdout().lock();
            shown.write_all(piece)?;
            shown.flush()?;
        }
        Ok(())
    }
}

impl Line {
    pub(crate) fn new(program: impl Into<OsString>) -> Line {
        Line {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Line {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Line {
        self.env.push((name, value.into()));
        self
    }

    /// Runs with this process's own input and output.
    pub(crate) fn status(&self) -> ExitCode {
        match self.command().status() {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{self}: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs with all that it says in the file `log`; whether it ended well.
    pub(crate) fn status_apart(&self, log: &Path) -> bool {
        let ran = File::create(log).and_then(|file| {
            let mut command = self.command();
            command
                .stdin(Stdio::null())
                .stdout(file.try_clone()?)
                .stderr(file);
            command.status()
        });
        match ran {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("{self}: {error}");
                false
            }
        }
    }

    /// Runs until it ends or `deadline` comes; what it says goes to `log`.
    pub(crate) fn run(&self, log: &mut Log, deadline: Instant) -> io::Result<Ending> {
        log.say(format!("$ {self}\n").as_bytes())?;
        let (reader, writer) = io::pipe()?;
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let spawned = command.spawn();
        drop(command);
        match spawned {
            Ok(child) => follow(child, reader, log, deadline),
            Err(error) => {
                log.say(format!("cannot start it: {error}\n").as_bytes())?;
                Ok(Ending::Bad)
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(root());
        command
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", value.display())?;
        }
        write!(f, "{}", self.program.display())?;
        self.args
            .iter()
            .try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

fn follow(
    mut child: Child,
    reader: impl Read + Send + 'static,
    log: &mut Log,
    deadline: Instant,
) -> io::Result<Ending> {
    let pieces = pieces_of(reader);
    loop {
        match pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(piece) => log.say(&piece)?,
            Err(RecvTimeoutError::Timeout) => {
                machine::end_tree(child.id());
                child.wait()?;
                log.say(b"\nended: it ran past its time limit\n")?;
                return Ok(Ending::TooLong);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let good = child.wait()?.success();
    Ok(if good { Ending::Good } else { Ending::Bad })
}

/// What `reader` yields, piece by piece, from a thread of its own.
fn pieces_of(mut reader: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(PIECES_MAX);
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n @ 1..) = reader.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Pieces of output that may wait to be written.
const PIECES_MAX: usize = 64;
