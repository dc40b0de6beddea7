//! A separate daemon for the bench, and the client that fills it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use sublet_sim::rng::SimRng;
use sublet_types::{Bytes, PAGE_BYTES};

use super::super::disks::error::BlockError;
use super::borrowing_peer::BorrowingPeer;
use super::vitals;
use crate::exit::Exit;

/// How long the daemon may take until it answers.
const START_MAX: Duration = Duration::from_secs(20);
/// The arena counts as full if it has not grown by [`GROWTH_MIN`] for this long.
const FULL_AFTER: Duration = Duration::from_secs(3);
const GROWTH_MIN: Bytes = Bytes::mib(16);
/// The same for an arena that is lent: the daemons meet first, and leases grow once a second.
const LENT_AFTER: Duration = Duration::from_secs(10);
/// Filling is given up after this.
const FILL_MAX: Duration = Duration::from_secs(300);

/// A daemon that lends its arena has at least one part in so many of the host's free memory when the arena is full. In a
/// cgroup it may have half of that.
const LENT_ONE_IN_MIN: u64 = 4;

/// Values as large as Mortar's.
const VALUE_BYTES: usize = 50_000;
/// Items that are written at once.
const BATCH: usize = 64;

/// Why the daemon could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// It could not be started.
    #[error("cannot start sublet serve: {0}")]
    Start(io::Error),
    /// It does not answer.
    #[error("sublet serve does not answer on port {0}")]
    Mute(u16),
    /// It could not be asked to release its memory.
    #[error("cannot ask sublet serve to release memory: {0}")]
    Release(io::Error),
    /// It could not be filled.
    #[error("cannot fill sublet serve: {0}")]
    Fill(io::Error),
    /// Its arena stayed rather empty, so that figures would say nothing.
    #[error(
        "sublet serve holds only {held} of {room} although another daemon should have borrowed all that it has"
    )]
    LittleLent {
        /// What it holds.
        held: Bytes,
        /// The size of its arena, or the memory that was free before it.
        room: Bytes,
    },
    /// Nobody borrows of it.
    #[error("cannot borrow of sublet serve: {0}")]
    Borrower(#[from] BlockError),
}

/// Run a program in this process that ends with the process that started it.
#[derive(Debug, clap::Args)]
pub(crate) struct TetherArgs {
    /// Run this program.
    program: PathBuf,
    /// Pass these arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Ties this process to its parent, then executes the program. The tie outlasts the exec.
pub(in crate::bench) fn tether(args: &TetherArgs) -> Exit {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Exit::failed(format_args!("cannot be tied to the bench: {error}"));
    }
    Exit::failed(Command::new(&args.program).args(&args.arguments).exec())
}

/// What fills the daemon's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArenaContent {
    /// Items of a client.
    Items,
    /// Pages of another host, which borrows all of the arena.
    Lent,
}

/// A running `sublet serve`. It ends with its owner.
pub(super) struct FilledDaemon {
    borrower: Option<BorrowingPeer>,
    sublet: PathBuf,
    child: Child,
    port: u16,
    folder: PathBuf,
    /// The size of its arena, or the memory that was free before it.
    room: Bytes,
}

impl FilledDaemon {
    /// Starts a daemon of `sublet`. Its arena takes all that is idle, or `arena` if that is given.
    pub(super) fn start(
        sublet: &Path,
        arena: Option<Bytes>,
        content: ArenaContent,
    ) -> Result<FilledDaemon, DaemonError> {
        let host = vitals::figures().unwrap_or_default();
        let port = free_port().map_err(DaemonError::Start)?;
        let folder =
            std::env::temp_dir().join(format!("sublet-bench-{}-{port}", std::process::id()));
        fs::create_dir(&folder).map_err(DaemonError::Start)?;
        let mut command = Command::new(std::env::current_exe().map_err(DaemonError::Start)?);
        // A ceiling, because it may run beside a daemon of the host's own.
        let ceiling = arena.unwrap_or(host.memory);
        command.args(["bench-tether", "--"]).arg(sublet);
        command.args(["serve", "--ceiling", &ceiling.0.to_string()]);
        let mut borrower = None;
        if content == ArenaContent::Lent {
            let peer = BorrowingPeer::new(sublet)?;
            let config = folder.join("lender.toml");
            fs::write(&config, peer.lender_config()).map_err(DaemonError::Start)?;
            command.arg("--config").arg(config);
            borrower = Some(peer);
        }
        command.args(["--listen", &format!("tcp:127.0.0.1:{port}")]);
        command.arg("--admin").arg(folder.join("admin.sock"));
        command.arg("--state").arg(folder.join("state"));
        if let Some(arena) = arena {
            let reserve = host.free - host.watermark - arena;
            command.args(["--reserve", &reserve.0.to_string()]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(DaemonError::Start)?;
        let mut daemon = FilledDaemon {
            borrower,
            sublet: sublet.to_owned(),
            child,
            port,
            folder,
            room: arena.unwrap_or(host.free),
        };
        daemon.await_answer()?;
        if let Some(borrower) = &mut daemon.borrower {
            borrower.start(sublet, ceiling)?;
        }
        Ok(daemon)
    }

    fn await_answer(&mut self) -> Result<(), DaemonError> {
        let begun = Instant::now();
        while begun.elapsed() < START_MAX && !matches!(self.child.try_wait(), Ok(Some(_))) {
            if self.connect().is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(DaemonError::Mute(self.port))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
    }

    /// What it has in memory.
    pub(super) fn resident(&self) -> Bytes {
        resident(self.child.id())
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stores items, or lets the borrower put pages, until the arena grows no more.
    pub(super) fn fill(&self) -> Result<Bytes, DaemonError> {
        let full_after = match self.borrower {
            Some(_) => LENT_AFTER,
            None => FULL_AFTER,
        };
        let begun = Instant::now();
        let mut largest = Bytes::ZERO;
        let mut grew_at = Instant::now();
        self.store_while(|resident| {
            if resident >= largest + GROWTH_MIN {
                largest = resident;
                grew_at = Instant::now();
            }
            grew_at.elapsed() < full_after && begun.elapsed() < FILL_MAX
        })?;
        let (held, room) = (self.resident(), self.room);
        match self.borrower.is_some() && held < Bytes(room.0 / LENT_ONE_IN_MIN) {
            true => Err(DaemonError::LittleLent { held, room }),
            false => Ok(held),
        }
    }

    /// Stores items, or lets the borrower put pages, until it has `amount` in memory. Returns how long that took, or nothing
    /// if it took longer than `most`.
    pub(super) fn fill_to(
        &self,
        amount: Bytes,
        most: Duration,
    ) -> Result<Option<Duration>, DaemonError> {
        let begun = Instant::now();
        self.store_while(|resident| resident < amount && begun.elapsed() < most)?;
        Ok((self.resident() >= amount).then(|| begun.elapsed()))
    }

    /// Makes it release all that it holds.
    pub(super) fn release_all(&self) -> Result<(), DaemonError> {
        let released = Command::new(&self.sublet)
            .args([
                "release",
                "--fast",
                &self.resident().0.to_string(),
                "--admin",
            ])
            .arg(self.folder.join("admin.sock"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match released {
            // The message says so if it had less to give than was asked for.
            Ok(_) => Ok(()),
            Err(error) => Err(DaemonError::Release(error)),
        }
    }

    fn store_while(&self, mut goes_on: impl FnMut(Bytes) -> bool) -> Result<(), DaemonError> {
        if let Some(borrower) = &self.borrower {
            while goes_on(self.resident()) {
                borrower.put_some()?;
            }
            return Ok(());
        }
        let mut socket = self.connect().map_err(DaemonError::Fill)?;
        let mut rng = SimRng::seeded(0xf111);
        let value: Vec<u8> = (0..VALUE_BYTES)
            .map(|_| b'!' + rng.below(90) as u8)
            .collect();
        let mut batch = Vec::with_capacity(BATCH * (VALUE_BYTES + 64));
        let mut key = u64::from(std::process::id()) << 32;
        while goes_on(self.resident()) {
            batch.clear();
            for _ in 0..BATCH {
                key += 1;
                // A write to a Vec cannot fail.
                let _ = write!(batch, "set fill-{key} 0 0 {VALUE_BYTES} noreply\r\n");
                batch.extend_from_slice(&value);
                batch.extend_from_slice(b"\r\n");
            }
            socket.write_all(&batch).map_err(DaemonError::Fill)?;
        }
        Ok(())
    }
}

impl Drop for FilledDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a process has in memory.
pub(super) fn resident(process: u32) -> Bytes {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    Bytes(pages.unwrap_or(0) * PAGE_BYTES)
}

fn free_port() -> io::Result<u16> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(socket.local_addr()?.port())
}
