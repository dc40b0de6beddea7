//! A command whose output goes to a log, and to the terminal if that is wanted.

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
pub(crate) struct CommandLine {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// Exit code 0.
    Succeeded,
    /// Any other exit code, or a signal, or it could not start.
    Failed,
    /// It was ended at its deadline.
    TimedOut,
}

/// The file that gets a command's output.
pub(crate) struct CommandLog {
    pub(crate) file: File,
    /// Whether the output is shown, too.
    pub(crate) is_shown: bool,
}

impl CommandLog {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        if self.is_shown {
            let mut shown = io::stdout().lock();
            shown.write_all(piece)?;
            shown.flush()?;
        }
        Ok(())
    }
}

impl CommandLine {
    pub(crate) fn new(program: impl Into<OsString>) -> CommandLine {
        CommandLine {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    pub(crate) fn args<A: Into<OsString>>(
        mut self,
        args: impl IntoIterator<Item = A>,
    ) -> CommandLine {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> CommandLine {
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

    /// Runs with all output in the file `log`. Returns whether it succeeded.
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

    /// Runs until it ends or `deadline` comes. Its output goes to `log`.
    pub(crate) fn run(
        &self,
        log: &mut CommandLog,
        deadline: Instant,
    ) -> io::Result<CommandOutcome> {
        log.write(format!("$ {self}\n").as_bytes())?;
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
                log.write(format!("cannot start it: {error}\n").as_bytes())?;
                Ok(CommandOutcome::Failed)
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

impl std::fmt::Display for CommandLine {
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
    log: &mut CommandLog,
    deadline: Instant,
) -> io::Result<CommandOutcome> {
    let pieces = pieces_of(reader);
    loop {
        match pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(piece) => log.write(&piece)?,
            Err(RecvTimeoutError::Timeout) => {
                machine::end_tree(child.id());
                child.wait()?;
                log.write(b"\nended: it ran past its time limit\n")?;
                return Ok(CommandOutcome::TimedOut);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let good = child.wait()?.success();
    Ok(if good {
        CommandOutcome::Succeeded
    } else {
        CommandOutcome::Failed
    })
}

/// The output of `reader`, piece by piece, read by a separate thread.
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

/// The most pieces of output that wait to be written.
const PIECES_MAX: usize = 64;
