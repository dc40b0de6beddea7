//! Two network namespaces of the bench's own with a veth link between them. They end with the bench, however it ends,
//! and with them all programs that run in them.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::super::disks::program::output_of;
use super::super::host_change_guard::HostChangeGuard;
use super::error::LendBenchError;

/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";

/// The bits of the link's network.
const PREFIX: &str = "/24";

/// How long the programs of a namespace may take to end.
const EMPTY_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The state of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Packets pass.
    Up,
    /// No packet passes.
    Down,
}

/// One of the two namespaces.
#[derive(Clone, Debug)]
pub(super) struct BenchNamespace {
    /// Its name for `ip netns`.
    pub(super) name: String,
    device: &'static str,
    /// Its address on the link.
    pub(super) address: Ipv4Addr,
}

impl BenchNamespace {
    fn lender(bench: u32) -> BenchNamespace {
        BenchNamespace {
            name: format!("sublet-bench-{bench}-lender"),
            device: "lender0",
            address: Ipv4Addr::new(10, 77, 0, 1),
        }
    }

    fn borrower(bench: u32) -> BenchNamespace {
        BenchNamespace {
            name: format!("sublet-bench-{bench}-borrower"),
            device: "borrower0",
            address: Ipv4Addr::new(10, 77, 0, 2),
        }
    }

    /// Runs `work` in a thread that is in the namespace. Sockets, threads and processes that it makes are in it too.
    pub(super) fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> io::Result<R> {
        let path = Path::new(NAMESPACES).join(&self.name);
        let in_thread = || {
            let namespace = File::open(path)?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        thread::scope(|scope| match scope.spawn(in_thread).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Sets the state of its end of the link.
    pub(super) fn set_link(&self, state: LinkState) -> io::Result<()> {
        let state = match state {
            LinkState::Up => "up",
            LinkState::Down => "down",
        };
        self.ip(&["link", "set", self.device, state])
    }

    fn ip(&self, arguments: &[&str]) -> io::Result<()> {
        let in_it = ["-n", &self.name];
        output_of(Command::new("ip").args(in_it).args(arguments)).map(drop)
    }

    fn set_up(&self) -> io::Result<()> {
        let address = format!("{}{PREFIX}", self.address);
        self.ip(&["addr", "add", &address, "dev", self.device])?;
        self.ip(&["link", "set", "lo", "up"])?;
        self.set_link(LinkState::Up)
    }

    /// The programs that run in it.
    fn programs(&self) -> io::Result<Vec<Pid>> {
        let pids = output_of(Command::new("ip").args(["netns", "pids", &self.name]))?;
        let numbers = pids.lines().filter_map(|line| line.trim().parse().ok());
        Ok(numbers.filter_map(Pid::from_raw).collect())
    }

    /// Ends what runs in it, then removes it.
    fn remove(&self) -> io::Result<()> {
        if !Path::new(NAMESPACES).join(&self.name).exists() {
            return Ok(());
        }
        let until = Instant::now() + EMPTY_MAX;
        loop {
            let programs = self.programs()?;
            if programs.is_empty() || Instant::now() > until {
                break;
            }
            for program in programs {
                // It may have ended meanwhile.
                let _ = kill_process(program, Signal::KILL);
            }
            thread::sleep(LOOK_EVERY);
        }
        output_of(Command::new("ip").args(["netns", "delete", &self.name])).map(drop)
    }
}

/// The namespaces, as long as this value lives.
pub(super) struct LinkedNamespaces {
    pub(super) lender: BenchNamespace,
    pub(super) borrower: BenchNamespace,
    _held: HostChangeGuard,
}

impl LinkedNamespaces {
    /// Makes both, and the link.
    pub(super) fn new() -> Result<LinkedNamespaces, LendBenchError> {
        let bench = std::process::id();
        let held = HostChangeGuard::start(&["linked", &bench.to_string()]);
        Ok(LinkedNamespaces {
            lender: BenchNamespace::lender(bench),
            borrower: BenchNamespace::borrower(bench),
            _held: held.map_err(LendBenchError::Namespaces)?,
        })
    }
}

/// Keeps the two namespaces of a bench while `work` runs.
pub(in crate::bench) fn linked_while(
    bench: u32,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let ends = [
        BenchNamespace::lender(bench),
        BenchNamespace::borrower(bench),
    ];
    let worked = link(&ends).and_then(|()| work());
    let removed = ends.map(|end| end.remove());
    removed.into_iter().fold(worked, Result::and)
}

fn link([lender, borrower]: &[BenchNamespace; 2]) -> io::Result<()> {
    for end in [lender, borrower] {
        output_of(Command::new("ip").args(["netns", "add", &end.name]))?;
    }
    let to = ["peer", "name", borrower.device, "netns", &borrower.name];
    let link = ["link", "add", lender.device, "type", "veth"];
    lender.ip(&[link.as_slice(), to.as_slice()].concat())?;
    lender.set_up()?;
    borrower.set_up()
}

/// Returns whether this process may make namespaces, as far as one can tell before.
#[cfg(test)]
fn may_make_namespaces() -> bool {
    rustix::process::geteuid().is_root() && Command::new("ip").arg("-V").output().is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn nothing_is_left_of_the_namespaces() {
        if !may_make_namespaces() {
            return;
        }
        // No process has this number.
        let bench = u32::MAX - std::process::id();
        let (lender, borrower) = (
            BenchNamespace::lender(bench),
            BenchNamespace::borrower(bench),
        );
        let kept = linked_while(bench, || {
            let listener = lender.run(|| TcpListener::bind((lender.address, 0)))??;
            let to = listener.local_addr()?;
            borrower.run(|| TcpStream::connect(to))??;
            let sleeps = || {
                let mut sleep = Command::new("sleep");
                sleep.arg("1000").stdout(Stdio::null()).spawn()
            };
            lender.run(sleeps)??;
            assert_eq!(lender.programs()?.len(), 1);
            Err(io::Error::other("the work failed"))
        });
        assert_eq!(kept.expect_err("it failed").to_string(), "the work failed");
        for end in [lender, borrower] {
            assert!(!Path::new(NAMESPACES).join(&end.name).exists());
        }
    }
}
