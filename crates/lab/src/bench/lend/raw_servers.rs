//! The servers that hold the same pages, each a process in the lender's namespace.

use std::io;
use std::process::Command;

use sublet_lend::ids::LeaseId;
use sublet_types::{BLOCK_BYTES, Bytes, PAGE_BYTES};

use super::super::cores::CoreAssignment;
use super::child_server::ChildServer;
use super::error::LendBenchError;
use super::goals::{BARE, MEMCACHED, NBDKIT, REDIS};
use super::lender_store::LentPlace;
use super::namespaces::LinkedNamespaces;
use super::page_protocol::PageProtocol;

/// Blocks that the lender lends beyond what the pages fill. Some blocks are never full.
const SPARE_BLOCKS: u64 = 8;

/// The ports of the peers, in namespaces where nothing else listens.
const MEMCACHED_PORT: u16 = 11_211;
const REDIS_PORT: u16 = 6379;
const NBD_PORT: u16 = 10_809;

/// A server that the lender is compared with.
pub(super) struct PeerServer {
    pub(super) name: &'static str,
    pub(super) protocol: PageProtocol,
    pub(super) server: ChildServer,
}

/// The lender and its peers.
pub(super) struct RawServers {
    pub(super) lender: ChildServer,
    pub(super) lent: LentPlace,
    pub(super) peers: Vec<PeerServer>,
    /// A note on each peer that is not installed.
    pub(super) missing: Vec<String>,
}

impl RawServers {
    /// Starts all that are installed.
    pub(super) fn start(
        size: Bytes,
        namespaces: &LinkedNamespaces,
        cores: &CoreAssignment,
    ) -> Result<RawServers, LendBenchError> {
        let address = namespaces.lender.address.to_string();
        let pages = (size.0 / PAGE_BYTES).to_string();
        let (lender, lent) = start_lender(size, namespaces, cores)?;
        let bare = ["bench-bare", &address, &pages];
        let (bare, _) = ChildServer::start_own(BARE, &bare, &namespaces.lender, cores)?;
        let mut servers = RawServers {
            lender,
            lent,
            peers: vec![PeerServer {
                name: BARE,
                protocol: PageProtocol::Bare,
                server: bare,
            }],
            missing: Vec::new(),
        };
        for (name, package, port, protocol, command) in [
            (
                MEMCACHED,
                "memcached",
                MEMCACHED_PORT,
                PageProtocol::Memcached,
                memcached(&address, size),
            ),
            (
                NBDKIT,
                "nbdkit",
                NBD_PORT,
                PageProtocol::Nbd,
                nbdkit(&address, size),
            ),
            (
                REDIS,
                "redis-server",
                REDIS_PORT,
                PageProtocol::Redis,
                redis(&address),
            ),
        ] {
            match ChildServer::start(name, command, port, namespaces, cores) {
                Ok(server) => servers.peers.push(PeerServer {
                    name,
                    protocol,
                    server,
                }),
                Err(LendBenchError::Server { cause, .. })
                    if cause.kind() == io::ErrorKind::NotFound =>
                {
                    servers.missing.push(format!(
                        "{name} is not installed and was left out: apt-get install {package}"
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(servers)
    }
}

/// Starts a lender in a process of its own.
fn start_lender(
    size: Bytes,
    namespaces: &LinkedNamespaces,
    cores: &CoreAssignment,
) -> Result<(ChildServer, LentPlace), LendBenchError> {
    let amount = size + Bytes(SPARE_BLOCKS * BLOCK_BYTES);
    let arguments = [
        "bench-lender",
        &namespaces.lender.address.to_string(),
        &format!("{}B", amount.0),
    ];
    let (server, said) =
        ChildServer::start_own("the lender", &arguments, &namespaces.lender, cores)?;
    let [lease, first, blocks] = said[..] else {
        return Err(LendBenchError::Server {
            server: "the lender",
            cause: io::Error::other("it does not say what it lends"),
        });
    };
    let lent = LentPlace {
        address: server.address,
        lease: LeaseId(lease),
        first,
        blocks,
    };
    Ok((server, lent))
}

/// memcached with one thread, and with room for all pages and what it adds to them.
fn memcached(address: &str, size: Bytes) -> Command {
    let mut command = Command::new("memcached");
    let mebibytes = (4 * (size.0 >> 20)).to_string();
    command.args(["-l", address, "-p", &MEMCACHED_PORT.to_string(), "-U", "0"]);
    command.args(["-t", "1", "-m", &mebibytes, "-u", "root"]);
    command
}

/// nbdkit's memory plugin.
fn nbdkit(address: &str, size: Bytes) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-i", address, "-p", &NBD_PORT.to_string()]);
    command.args(["memory", &size.0.to_string()]);
    command
}

/// Redis without a file.
fn redis(address: &str) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--bind", address, "--port", &REDIS_PORT.to_string()]);
    command.args(["--protected-mode", "no", "--save", "", "--appendonly", "no"]);
    command
}
