//! A server in the lender's namespace. It ends with its owner, or with the namespace.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::cores::CoreAssignment;
use super::super::tested_server::cpu;
use super::error::LendBenchError;
use super::namespaces::{BenchNamespace, LinkedNamespaces};

/// How long a server may take until it takes connections.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running server.
pub(super) struct ChildServer {
    name: &'static str,
    child: Child,
    /// Where it takes connections.
    pub(super) address: SocketAddr,
}

impl ChildServer {
    /// Starts a program that listens at this port of the lender's address. Waits until it takes connections.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        port: u16,
        namespaces: &LinkedNamespaces,
        cores: &CoreAssignment,
    ) -> Result<ChildServer, LendBenchError> {
        let address = SocketAddr::from((namespaces.lender.address, port));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = ChildServer {
            name,
            child: spawn(name, command, &namespaces.lender, cores)?,
            address,
        };
        let until = Instant::now() + START_MAX;
        while namespaces
            .borrower
            .run(|| TcpStream::connect(address))?
            .is_err()
        {
            if let Some(status) = server.child.try_wait()? {
                return Err(server.failed(format!("it ended with {status}")));
            }
            if Instant::now() > until {
                return Err(server.failed("it does not listen".to_owned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    /// Starts this program with a hidden command that says where it listens. Returns what it says after that as well.
    pub(super) fn start_own(
        name: &'static str,
        arguments: &[&str],
        namespace: &BenchNamespace,
        cores: &CoreAssignment,
    ) -> Result<(ChildServer, Vec<u32>), LendBenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = ChildServer {
            name,
            child: spawn(name, command, namespace, cores)?,
            address: (namespace.address, 0).into(),
        };
        let mut line = String::new();
        if let Some(stdout) = server.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let said: Option<Vec<u32>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        let port = said
            .as_ref()
            .and_then(|said| u16::try_from(*said.first()?).ok());
        let (Some(said), Some(port)) = (said, port) else {
            let mut why = String::new();
            if let Some(stderr) = &mut server.child.stderr {
                stderr.read_to_string(&mut why)?;
            }
            return Err(server.failed(why.trim().to_owned()));
        };
        server.address.set_port(port);
        Ok((server, said[1..].to_vec()))
    }

    /// CPU time that its threads have used.
    pub(super) fn cpu(&self) -> Result<Duration, LendBenchError> {
        let used = cpu(self.child.id());
        used.map_err(|cause| LendBenchError::Server {
            server: self.name,
            cause,
        })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn failed(&self, why: String) -> LendBenchError {
        LendBenchError::Server {
            server: self.name,
            cause: io::Error::other(why),
        }
    }
}

/// Starts a program in a namespace, on the servers' cores.
fn spawn(
    name: &'static str,
    mut command: Command,
    namespace: &BenchNamespace,
    cores: &CoreAssignment,
) -> Result<Child, LendBenchError> {
    command.stdin(Stdio::piped());
    let child = namespace.run(|| cores.on_servers(|| command.spawn()))?;
    child.map_err(|cause| LendBenchError::Server {
        server: name,
        cause,
    })
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // It may have ended by itself. Then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says to the bench where a child listens, and numbers after that. Then waits until the bench ends.
pub(super) fn say_and_wait(said: &[u32]) -> io::Result<()> {
    use std::io::Write;
    let words: Vec<String> = said.iter().map(u32::to_string).collect();
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", words.join(" "))?;
    stdout.flush()?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// The address at which a child of the bench listens.
pub(super) fn any_port(of: Ipv4Addr) -> SocketAddr {
    (of, 0).into()
}
