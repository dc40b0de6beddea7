//! Certificates and config tables of two nodes of which one lends to the other.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use sublet_types::{BLOCK_BYTES, Bytes};

use super::super::disks::program::output_of;
use super::super::folder::ScratchFolder;

/// The nodes' names.
const LENDER: &str = "lender";
const BORROWER: &str = "borrower";

/// Two nodes that name each other.
pub(in crate::bench) struct PeerPair {
    folder: PathBuf,
    lender: SocketAddr,
    borrower: SocketAddr,
}

impl PeerPair {
    /// Makes certificates in a folder, for nodes that listen at these addresses: the lender, then the borrower.
    pub(in crate::bench) fn new(
        sublet: &Path,
        folder: &ScratchFolder,
        [lender, borrower]: [SocketAddr; 2],
    ) -> io::Result<PeerPair> {
        let authority = |arguments: &[&str]| {
            let mut command = Command::new(sublet);
            command.args(["lend", "ca"]).args(arguments);
            output_of(command.arg("--dir").arg(folder.path())).map(drop)
        };
        authority(&["init"])?;
        authority(&["issue", LENDER])?;
        authority(&["issue", BORROWER])?;
        Ok(PeerPair {
            folder: folder.path().to_owned(),
            lender,
            borrower,
        })
    }

    /// The table `[peers]` of the lender's config.
    pub(in crate::bench) fn lender_table(&self) -> String {
        self.table((LENDER, self.lender), (BORROWER, self.borrower))
    }

    /// The tables of the borrower's config. It lends nothing, and borrows this amount by an outbox of this size.
    pub(in crate::bench) fn borrower_tables(&self, most: Bytes, outbox: Bytes) -> String {
        let peers = self.table((BORROWER, self.borrower), (LENDER, self.lender));
        let (most, outbox) = (whole_blocks(most).0, outbox.0);
        format!("{peers}[lend]\nmax = 0\n[borrow]\nmax = \"{most}B\"\noutbox = \"{outbox}B\"\n")
    }

    /// The same nodes, of which the borrower meets the lender at a relay's address.
    pub(super) fn by_relay(&self, relay: SocketAddr) -> PeerPair {
        PeerPair {
            folder: self.folder.clone(),
            lender: relay,
            borrower: self.borrower,
        }
    }

    fn table(
        &self,
        (own, at): (&str, SocketAddr),
        (other, other_at): (&str, SocketAddr),
    ) -> String {
        format!(
            "[peers]\nnode = \"{own}\"\nlisten = \"tcp:{at}\"\nmembers = [\"{other}=tcp:{other_at}\"]\n\
             ca = \"{folder}/ca.crt\"\ncertificate = \"{folder}/{own}.crt\"\nkey = \"{folder}/{own}.key\"\n",
            folder = self.folder.display(),
        )
    }
}

/// Whole blocks of an amount, at least one.
pub(super) fn whole_blocks(amount: Bytes) -> Bytes {
    Bytes(amount.0.max(1).next_multiple_of(BLOCK_BYTES))
}
