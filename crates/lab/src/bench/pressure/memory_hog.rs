//! The program that takes memory. It is this binary again in a separate process, so that its memory is its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut};
use rustix::process::{Signal, set_parent_process_death_signal};
use sublet_types::{Bytes, PAGE_BYTES};

use crate::exit::Exit;

/// The pages in which memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PageSize {
    /// Pages of 4 KiB.
    Small,
    /// Pages of 2 MiB.
    Huge,
}

impl PageSize {
    pub(super) fn name(self) -> &'static str {
        match self {
            PageSize::Small => "4 KiB pages",
            PageSize::Huge => "huge pages",
        }
    }

    fn argument(self) -> &'static str {
        match self {
            PageSize::Small => "small",
            PageSize::Huge => "huge",
        }
    }
}

/// Takes memory after a line on stdin, prints the microseconds that this took, and keeps the memory until stdin ends.
#[derive(Debug, clap::Args)]
pub(crate) struct MemoryHogArgs {
    #[arg(long)]
    amount: Bytes,
    #[arg(long, value_enum)]
    pages: PageSize,
}

/// Runs the program itself.
pub(in crate::bench) fn run_memory_hog(args: &MemoryHogArgs) -> Exit {
    // The bench may be killed. Then this process ends too.
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    match tied
        .map_err(io::Error::from)
        .and_then(|()| take_and_hold(args))
    {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(format_args!("cannot take {}: {error}", args.amount)),
    }
}

fn take_and_hold(args: &MemoryHogArgs) -> io::Result<()> {
    let mut map = MmapMut::map_anon(usize::try_from(args.amount.0).unwrap_or(usize::MAX))?;
    map.advise(match args.pages {
        PageSize::Small => Advice::NoHugePage,
        PageSize::Huge => Advice::HugePage,
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

/// Why a program that takes memory reported nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryHogError {
    /// It could not be started or spoken to.
    #[error("the program that takes memory failed: {0}")]
    Io(#[from] io::Error),
}

/// How taking memory ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeOutcome {
    /// It took all of it, in this time.
    In(Duration),
    /// The kernel killed the program, or refused.
    Killed,
}

/// A running program that takes memory. It ends with its owner.
pub(super) struct MemoryHog {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl MemoryHog {
    /// Starts a program that waits to begin.
    pub(super) fn start(amount: Bytes, pages: PageSize) -> Result<MemoryHog, MemoryHogError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench-eat", "--amount", &amount.0.to_string()])
            .args(["--pages", pages.argument()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(MemoryHog {
            child,
            orders: Some(orders),
            answers: BufReader::new(answers),
        })
    }

    /// Lets it begin, and waits until it has all its memory. It keeps the memory.
    pub(super) fn take_memory(&mut self) -> Result<TakeOutcome, MemoryHogError> {
        if let Some(orders) = &mut self.orders {
            match orders.write_all(b"take\n") {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(TakeOutcome::Killed);
                }
                written => written?,
            }
        }
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(match line.trim().parse() {
            Ok(micros) => TakeOutcome::In(Duration::from_micros(micros)),
            Err(_) => TakeOutcome::Killed,
        })
    }
}

impl Drop for MemoryHog {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It may be dead already, and an end of stdin may come too late for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
