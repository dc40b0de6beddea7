//! A swap file for the time of the bench: only where pages can be swapped does it mean anything that
//! none are.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::FallocateFlags;
use sublet_types::Bytes;

use super::vitals;
use crate::exit::Exit;

const SWAP: Bytes = Bytes::gib(1);
const FOLDER: &str = "/var/tmp";

/// Has a swap file in use until stdin ends: whatever becomes of the bench, it is taken away.
#[derive(Debug, clap::Args)]
pub(crate) struct SwapArgs {
    path: PathBuf,
}

/// The keeper itself.
pub(super) fn keep_swap(args: &SwapArgs) -> Exit {
    let kept = switch_on(&args.path).and_then(|()| {
        let mut stdout = io::stdout().lock();
        let said = writeln!(stdout, "on").and_then(|()| stdout.flush());
        let ended = io::stdin().read_to_end(&mut Vec::new());
        let off = tell("swapoff", &args.path);
        said.and(ended.map(drop)).and(off)
    });
    let removed = fs::remove_file(&args.path);
    match kept.and(removed) {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(format_args!("swap file {}: {error}", args.path.display())),
    }
}

fn switch_on(path: &Path) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SWAP.0)?;
    tell("mkswap", path)?;
    tell("swapon", path)
}

fn tell(program: &str, path: &Path) -> io::Result<()> {
    let status = Command::new(program)
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{program} failed")))
    }
}

/// A swap file in use; it goes with its owner.
pub(super) struct Swap(Child);

impl Swap {
    /// Switches one on where there is none and root asks; says what came of it.
    pub(super) fn on() -> (Option<Swap>, String) {
        let has_swap = vitals::figures().is_ok_and(|host| host.swap > Bytes::ZERO);
        if has_swap {
            return (None, "the host's own swap was on".into());
        }
        if !rustix::process::geteuid().is_root() {
            let note =
                "no swap: without root none can be switched on, so nothing could be swapped out";
            return (None, note.into());
        }
        match Swap::start() {
            Ok(swap) => (Some(swap), format!("a swap file of {SWAP} was on")),
            Err(error) => (None, format!("no swap: {error}")),
        }
    }

    fn start() -> io::Result<Swap> {
        let path = Path::new(FOLDER).join(format!("sublet-bench-{}.swap", std::process::id()));
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bench-keep-swap")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C ends the bench; the keeper then still has its work to do.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let swap = Swap(child);
        match line.trim() {
            "on" => Ok(swap),
            _ => Err(io::Error::other("swapon was refused")),
        }
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
