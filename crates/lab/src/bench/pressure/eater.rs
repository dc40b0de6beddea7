//! The program that takes memory: this binary again, so that what it takes is its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut};
use rustix::process::{Signal, set_parent_process_death_signal};
use sublet_types::{Bytes, PAGE_BYTES};

use crate::exit::Exit;

/// The pages in which memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pages {
    /// Of 4 KiB.
    Small,
    /// Of 2 MiB.
    Huge,
}

impl Pages {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pages::Small => "4 KiB pages",
            Pages::Huge => "huge pages",
        }
    }

    fn argument(self) -> &'static str {
        match self {
            Pages::Small => "small",
            Pages::Huge => "huge",
        }
    }
}

/// Takes memory when a line comes on stdin, says in how many microseconds, and keeps it until stdin ends.
#[derive(Debug, clap::Args)]
pub(crate) struct EaterArgs {
    #[arg(long)]
    amount: Bytes,
    #[arg(long, value_enum)]
    pages: Pages,
}

/// The program itself.
pub(in crate::bench) fn eat(args: &EaterArgs) -> Exit {
    // The bench may be killed: then this goes too.
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    match tied
        .map_err(io::Error::from)
        .and_then(|()| take_and_keep(args))
    {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(format_args!("cannot take {}: {error}", args.amount)),
    }
}

fn take_and_keep(args: &EaterArgs) -> io::Result<()> {
    let mut map = MmapMut::map_anon(usize::try_from(args.amount.0).unwrap_or(usize::MAX))?;
    map.advise(match args.pages {
        Pages::Small => Advice::NoHugePage,
        Pages::Huge => Advice::HugePage,
    })?;
    let mut stdin = io::stdin().lock();
    stdin.read_line(&mut String::new())?;
    let begun = Instant::now();
    for page in map.chunks_mut(PAGE_BYTES as usize) {
        page[0] = 1;
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", begun.elapsed().as_micros())?;
    stdout.flush()?;
    stdin.read_to_end(&mut Vec::new())?;
    drop(map);
    Ok(())
}

/// Why a program that takes memory told nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EaterError {
    /// It could not be started or spoken to.
    #[error("the program that takes memory: {0}")]
    Io(#[from] io::Error),
}

/// How taking memory ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// All of it, in this time.
    In(Duration),
    /// The kernel killed the program, or refused.
    Killed,
}

/// A running program that takes memory; it ends with its owner.
pub(super) struct Eater {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Eater {
    /// One that waits to begin.
    pub(super) fn start(amount: Bytes, pages: Pages) -> Result<Eater, EaterError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench-eat", "--amount", &amount.0.to_string()])
            .args(["--pages", pages.argument()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Eater {
            child,
            orders: Some(orders),
            answers: BufReader::new(answers),
        })
    }

    /// Lets it begin and waits until it has it all. What it took it keeps.
    pub(super) fn take(&mut self) -> Result<Taken, EaterError> {
        if let Some(orders) = &mut self.orders {
            match orders.write_all(b"take\n") {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(Taken::Killed);
                }
                written => written?,
            }
        }
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(match line.trim().parse() {
            Ok(micros) => Taken::In(Duration::from_micros(micros)),
            Err(_) => Taken::Killed,
        })
    }
}

impl Drop for Eater {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It may be dead already; and an end of stdin may come too late for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
