//! A server under test: its process, and its figures from the kernel.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sublet_types::Bytes;

/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(20);

/// The memcached that `scripts/peer-memcached` built.
const PEER_BUILT: &str = "target/peer/memcached";

/// Why a server could not be tested.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TestedServerError {
    /// There is no memcached to compare with.
    #[error(
        "no memcached to compare with: give one by --against PATH, install one, or build one by scripts/peer-memcached"
    )]
    NoPeer,
    /// It could not be started.
    #[error("cannot start {program}: {cause}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        cause: io::Error,
    },
    /// It does not answer.
    #[error("{program} does not answer on port {port}; it was started with: {arguments}")]
    NoAnswer {
        /// The program.
        program: String,
        /// The port.
        port: u16,
        /// The arguments.
        arguments: String,
    },
    /// The kernel or the server does not give a figure.
    #[error("cannot read {what} of {program}: {cause}")]
    Unreadable {
        /// The figure.
        what: &'static str,
        /// The program.
        program: String,
        /// The cause.
        cause: io::Error,
    },
}

/// A program of a server.
#[derive(Clone, Debug)]
pub(super) enum ServerProgram {
    /// `sublet memcached`.
    Ours(PathBuf),
    /// A memcached.
    Peer(PathBuf),
}

impl ServerProgram {
    /// The memcached to compare with: the given one, else the one on the PATH, else the one that was built here.
    pub(super) fn peer(given: Option<&Path>) -> Result<ServerProgram, TestedServerError> {
        if let Some(path) = given {
            return Ok(ServerProgram::Peer(path.to_owned()));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join("memcached"))
            .chain([PathBuf::from(PEER_BUILT)])
            .find(|candidate| candidate.is_file())
            .map(ServerProgram::Peer)
            .ok_or(TestedServerError::NoPeer)
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            ServerProgram::Ours(_) => "sublet memcached".into(),
            ServerProgram::Peer(path) => path.display().to_string(),
        }
    }

    fn command(&self) -> Command {
        match self {
            ServerProgram::Ours(path) => {
                let mut command = Command::new(path);
                command.arg("memcached");
                command
            }
            ServerProgram::Peer(path) => Command::new(path),
        }
    }
}

/// Options of a server. They are the same for both sides.
#[derive(Clone, Debug)]
pub(super) struct StartOptions {
    /// `-m`.
    pub(super) memory: Bytes,
    /// `-t`.
    pub(super) threads: usize,
    /// `-I`.
    pub(super) item_max: Bytes,
}

impl StartOptions {
    fn arguments(&self, port: u16) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["-l".into(), "127.0.0.1".into()];
        let mut option = |name: &str, value: u64| {
            arguments.push(name.into());
            arguments.push(value.to_string().into());
        };
        option("-p", u64::from(port));
        option("-U", 0);
        option("-m", self.memory.0 >> 20);
        option("-t", self.threads as u64);
        option("-I", self.item_max.0);
        option("-c", 4096);
        if rustix::process::geteuid().is_root() {
            arguments.extend(["-u".into(), "root".into()]);
        }
        arguments
    }
}

/// A running server. It ends with its owner.
pub(super) struct TestedServer {
    name: String,
    child: Child,
    port: u16,
}

impl TestedServer {
    /// Starts `program` on a free port and waits until it answers.
    pub(super) fn start(
        program: &ServerProgram,
        start: &StartOptions,
    ) -> Result<TestedServer, TestedServerError> {
        let spawned = free_port().and_then(|port| {
            let child = program
                .command()
                .args(start.arguments(port))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok((port, child))
        });
        let (port, child) = spawned.map_err(|cause| TestedServerError::Start {
            program: program.name(),
            cause,
        })?;
        let mut server = TestedServer {
            name: program.name(),
            child,
            port,
        };
        server.await_answer(start)?;
        Ok(server)
    }

    fn await_answer(&mut self, start: &StartOptions) -> Result<(), TestedServerError> {
        let begun = Instant::now();
        while begun.elapsed() < START_MAX && !matches!(self.child.try_wait(), Ok(Some(_))) {
            if self.version().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let arguments = start.arguments(self.port);
        Err(TestedServerError::NoAnswer {
            program: self.name.clone(),
            port: self.port,
            arguments: arguments.join(" ".as_ref()).to_string_lossy().into_owned(),
        })
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its answer to `version`.
    pub(super) fn version(&self) -> Result<String, TestedServerError> {
        let lines = self.request("version\r\n", |line| line.starts_with("VERSION"));
        let lines = lines.map_err(|cause| self.unreadable("the version", cause))?;
        let last = lines.last().map_or("", |line| line.as_str());
        Ok(last.trim_start_matches("VERSION ").to_owned())
    }

    /// One of its general statistics, as a number.
    pub(super) fn statistic(&self, name: &'static str) -> Result<f64, TestedServerError> {
        let lines = self
            .request("stats\r\n", |line| line == "END")
            .map_err(|cause| self.unreadable(name, cause))?;
        let prefix = format!("STAT {name} ");
        lines
            .iter()
            .find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok())
            .ok_or_else(|| self.unreadable(name, io::ErrorKind::NotFound.into()))
    }

    /// CPU time that all its threads have used.
    pub(super) fn cpu(&self) -> Result<Duration, TestedServerError> {
        cpu(self.child.id()).map_err(|cause| self.unreadable("the CPU time", cause))
    }

    /// Resident memory of the process.
    pub(super) fn resident(&self) -> Result<Bytes, TestedServerError> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text =
            fs::read_to_string(path).map_err(|cause| self.unreadable("the memory", cause))?;
        text.lines()
            .find_map(|line| {
                line.strip_prefix("Rss:")?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .map(Bytes::kib)
            .ok_or_else(|| self.unreadable("the memory", io::ErrorKind::InvalidData.into()))
    }

    fn request(&self, request: &str, is_last: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut socket = TcpStream::connect(self.address())?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.write_all(request.as_bytes())?;
        let mut lines = Vec::new();
        for line in BufReader::new(socket).lines() {
            lines.push(line?);
            if lines.last().is_some_and(|line| is_last(line)) {
                return Ok(lines);
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn unreadable(&self, what: &'static str, cause: io::Error) -> TestedServerError {
        TestedServerError::Unreadable {
            what,
            program: self.name.clone(),
            cause,
        }
    }
}

impl Drop for TestedServer {
    fn drop(&mut self) {
        // It may have ended by itself. Then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time that all threads of a process have used, to the nanosecond.
pub(super) fn cpu(process: u32) -> io::Result<Duration> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let running = text.split(' ').next().and_then(|n| n.parse::<u64>().ok());
        sum += running.ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(Duration::from_nanos(sum))
}

/// A port of this host that nobody listens on.
pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}
