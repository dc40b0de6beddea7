//! PostgreSQL in a folder, and pgbench.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sublet_types::Bytes;

use super::super::super::folder::ScratchFolder;
use super::super::program::output_of;

/// PostgreSQL does not run as root, but as this user. The user comes with the package.
const USER: &str = "postgres";

/// Debian's package.
pub(super) const PACKAGE: &str = "postgresql";

/// Debian has a folder for each version here.
const VERSIONS: &str = "/usr/lib/postgresql";

/// How long a database may take until it answers, or until it has ended.
const START_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// The size of one unit of pgbench's scale, with its index.
const UNIT: Bytes = Bytes::mib(16);

/// Settings with little own memory and a short log, so that requests reach the disk. Nothing runs by itself.
const SETTINGS: [&str; 6] = [
    "listen_addresses=",
    "shared_buffers=8MB",
    "max_connections=20",
    "min_wal_size=8MB",
    "max_wal_size=32MB",
    "autovacuum=off",
];

/// The memory of its processes and its buffers.
pub(super) const MEMORY: Bytes = Bytes::mib(32);

/// The number of simultaneous clients.
pub(super) const CLIENTS: usize = 4;

/// The folder of PostgreSQL's programs.
#[derive(Clone)]
pub(super) struct PostgresPrograms(PathBuf);

impl PostgresPrograms {
    /// The programs of the newest version that has all of them.
    pub(super) fn find() -> Option<PostgresPrograms> {
        let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
        let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
        let folders = versions.map(|entry| entry.path());
        let newest = folders
            .filter(|path| path.join("bin/pgbench").is_file())
            .filter(|path| path.join("bin/initdb").is_file())
            .max_by_key(|path| version(path));
        newest.map(|path| PostgresPrograms(path.join("bin")))
    }

    fn command(&self, program: &str) -> Command {
        Command::new(self.0.join(program))
    }

    /// A command that runs as the user, and ends when the bench does.
    fn as_user(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        command.args(["--pdeathsig", "KILL", "--"]);
        command.arg(self.0.join(program));
        command
    }

    /// Makes a database with pgbench's tables in `top`, of about `amount`.
    pub(super) fn make(&self, folder: &ScratchFolder, top: &Path, amount: Bytes) -> io::Result<()> {
        let inside = top.join("data");
        output_of(Command::new("chown").arg(USER).arg(top))?;
        let mut initdb = self.as_user("initdb");
        initdb.arg("-D").arg(&inside);
        initdb.args([
            "--no-sync",
            "--no-instructions",
            "--no-locale",
            "-E",
            "UTF8",
        ]);
        output_of(initdb.args(["-A", "trust", "--wal-segsize=1"]))?;
        let scale = (amount.0 / UNIT.0).max(1).to_string();
        let database = RunningPostgres::start(self, folder, top)?;
        let mut pgbench = self.command("pgbench");
        pgbench.args(["-i", "-q", "-s", &scale]);
        output_of(database.reached_by(&mut pgbench).arg("postgres"))?;
        Ok(())
    }
}

/// A running database. It ends with its owner.
pub(super) struct RunningPostgres {
    programs: PostgresPrograms,
    child: Child,
    sockets: PathBuf,
}

impl RunningPostgres {
    /// Starts the database in `top`. Its socket and its log lie in `folder`.
    pub(super) fn start(
        programs: &PostgresPrograms,
        folder: &ScratchFolder,
        top: &Path,
    ) -> io::Result<RunningPostgres> {
        let sockets = folder.join("postgres");
        fs::create_dir_all(&sockets)?;
        output_of(Command::new("chown").arg(USER).arg(&sockets))?;
        let log = folder.join("postgres.log");
        let mut command = programs.as_user("postgres");
        command.arg("-D").arg(top.join("data"));
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let place = format!("unix_socket_directories={}", sockets.display());
        command.args(["-c", &place]).stdin(Stdio::null());
        let child = command
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut database = RunningPostgres {
            programs: programs.clone(),
            child,
            sockets,
        };
        database.await_answer(&log)?;
        Ok(database)
    }

    fn await_answer(&mut self, log: &Path) -> io::Result<()> {
        let until = Instant::now() + START_MAX;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            let mut asking = self.programs.command("pg_isready");
            if self.reached_by(&mut asking).output()?.status.success() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        let why = fs::read_to_string(log)?;
        Err(io::Error::other(format!(
            "postgres does not answer: {}",
            why.trim()
        )))
    }

    fn reached_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.arg("-h").arg(&self.sockets).args(["-U", USER])
    }

    /// Runs pgbench for a while.
    pub(super) fn transact(
        &self,
        script: PgbenchScript,
        time: Duration,
    ) -> io::Result<PgbenchResult> {
        let mut pgbench = self.programs.command("pgbench");
        let clients = CLIENTS.to_string();
        pgbench.args(["-c", &clients, "-j", "1", "-T"]);
        pgbench.arg((time.as_secs_f64().round() as u64).max(1).to_string());
        pgbench.args(script.options());
        let output = output_of(self.reached_by(&mut pgbench).arg("postgres"))?;
        PgbenchResult::read(&output)
            .ok_or_else(|| io::Error::other(format!("pgbench does not say what it did: {output}")))
    }
}

impl Drop for RunningPostgres {
    fn drop(&mut self) {
        // The database does not wait for its clients.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::INT);
        }
        let until = Instant::now() + END_MAX;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One of pgbench's own scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PgbenchScript {
    /// One row is read. All rows are equally likely.
    Select,
    /// Three rows are updated and one is added: "TPC-B (sort of)".
    TpcB,
}

impl PgbenchScript {
    /// Its name in a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            PgbenchScript::Select => "pgbench -S",
            PgbenchScript::TpcB => "pgbench TPC-B",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            PgbenchScript::Select => &["-S", "-n"],
            PgbenchScript::TpcB => &[],
        }
    }
}

/// The results of pgbench.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PgbenchResult {
    pub(super) transactions: f64,
    pub(super) per_second: f64,
}

impl PgbenchResult {
    /// Parses pgbench's output. Nothing if a transaction failed or a figure is missing.
    fn read(output: &str) -> Option<PgbenchResult> {
        let after = |words: &str| {
            let line = output.lines().find_map(|line| line.strip_prefix(words))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let failed = after("number of failed transactions: ").unwrap_or(0.0);
        let transacted = PgbenchResult {
            transactions: after("number of transactions actually processed: ")?,
            per_second: after("tps = ")?,
        };
        (failed == 0.0 && transacted.transactions > 0.0).then_some(transacted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "pgbench (15.8 (Debian 15.8-0+deb12u1))\n\
        transaction type: <builtin: select only>\nscaling factor: 8\nnumber of clients: 4\n\
        duration: 10 s\nnumber of transactions actually processed: 12345\n\
        number of failed transactions: 0 (0.000%)\nlatency average = 3.240 ms\n\
        initial connection time = 12.345 ms\ntps = 1234.567890 (without initial connection time)\n";

    #[test]
    fn what_pgbench_says_is_understood() {
        let due = PgbenchResult {
            transactions: 12345.0,
            per_second: 1234.56789,
        };
        assert_eq!(PgbenchResult::read(SAID), Some(due));
    }

    #[test]
    fn a_figure_that_is_none_is_not_taken_for_one() {
        let with = |from: &str, to: &str| PgbenchResult::read(&SAID.replace(from, to));
        assert_eq!(with("tps = 1234.567890", "tps = "), None);
        assert_eq!(with("processed: 12345", "processed: 0"), None);
        assert_eq!(
            with("failed transactions: 0", "failed transactions: 3"),
            None
        );
        assert_eq!(PgbenchResult::read(""), None);
    }
}
