//! Two hosts that lend: a daemon in each namespace, with certificates of their own.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use sublet_types::Bytes;

use super::super::cores::CoreAssignment;
use super::super::folder::ScratchFolder;
use super::child_server::ChildServer;
use super::error::LendBenchError;
use super::namespaces::LinkedNamespaces;
use super::peer_pair::{PeerPair, whole_blocks};

/// Where each daemon takes peers.
const PORT: u16 = 7171;

/// Memory of the lender's arena beside what it lends: the item index, what it keeps free for eviction, and a block for
/// each tenant.
const BESIDE: Bytes = Bytes::mib(64);

/// The borrower's outbox. Its arena is small, so it has an eighth of the default.
const OUTBOX: Bytes = Bytes(512 << 10);

/// The lender's daemon, and what a borrower's daemon needs to know of it.
pub(super) struct LendingHosts {
    /// The `sublet` of both.
    pub(super) sublet: PathBuf,
    // In the order in which they end.
    _lender: ChildServer,
    _folder: ScratchFolder,
    pair: PeerPair,
    pub(super) namespaces: LinkedNamespaces,
}

impl LendingHosts {
    /// Makes certificates, and starts the lender. It lends this amount.
    pub(super) fn start(sublet: PathBuf, most: Bytes) -> Result<LendingHosts, LendBenchError> {
        let namespaces = LinkedNamespaces::new()?;
        let folder = ScratchFolder::new()?;
        let ends = [&namespaces.lender, &namespaces.borrower];
        let pair = PeerPair::new(&sublet, &folder, ends.map(|end| (end.address, PORT).into()))?;
        let most = whole_blocks(most);
        let peers = pair.lender_table();
        let config = format!(
            "[daemon]\nthreads = 1\nstate = \"{folder}/lender\"\n[admin]\nsocket = \"{folder}/lender.sock\"\n\
             [arena]\nceiling = \"{ceiling}B\"\n[tenants.none]\nlisten = [\"unix:{folder}/none.sock\"]\n{peers}\
             [lend]\nmax = \"{most}B\"\nmax_each = \"100%\"\ncpu = \"100%\"\n",
            folder = folder.path().display(),
            ceiling = (most + BESIDE).0,
            most = most.0,
        );
        let file = folder.join("lender.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(&sublet);
        command.arg("serve").arg("--config").arg(&file);
        let everywhere = CoreAssignment::deal(2);
        let lender = ChildServer::start(
            "the lending daemon",
            command,
            PORT,
            &namespaces,
            &everywhere,
        )?;
        Ok(LendingHosts {
            sublet,
            _lender: lender,
            _folder: folder,
            pair,
            namespaces,
        })
    }

    /// The tables of a borrower's config. It borrows this amount.
    pub(super) fn borrower_tables(&self, most: Bytes) -> String {
        self.pair.borrower_tables(most, OUTBOX)
    }

    /// The same for a borrower that meets the lender by a relay at this address. The table `[borrow]` is the last, so
    /// that more of its lines may follow.
    pub(super) fn borrower_tables_by(&self, relay: SocketAddr, most: Bytes) -> String {
        self.pair.by_relay(relay).borrower_tables(most, OUTBOX)
    }

    /// Where the lender takes peers.
    pub(super) fn lender_address(&self) -> SocketAddr {
        (self.namespaces.lender.address, PORT).into()
    }
}
