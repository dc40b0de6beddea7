//! A second daemon that borrows all that the daemon under test has. It reads a disk of holes at random, more of it than
//! its own arena holds, so that its evicted pages go to the lender.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::disks::disk_server::DiskServer;
use super::super::disks::drive::{self, PlaceSeed};
use super::super::disks::error::BlockError;
use super::super::folder::ScratchFolder;
use super::super::lend::peer_pair::PeerPair;
use super::super::tested_server::free_port;

/// The disk: far more than any arena holds.
const DISK: Bytes = Bytes::gib(256);

/// The borrower's arena. Half of it may hold records of borrowed blocks, which is enough for 20 GiB of them.
const ARENA: Bytes = Bytes::mib(768);

/// What the disk answers after. A borrower takes little of a lender that is hardly quicker than its disk.
const SLOW: &str = "1ms";

/// The borrower's outbox: the default.
const OUTBOX: Bytes = Bytes::mib(4);

/// Reads at a time, and how long it reads between two looks at the lender.
const DEPTH: u16 = 128;
const READS_FOR: Duration = Duration::from_millis(200);

/// A daemon that borrows.
pub(super) struct BorrowingPeer {
    // In the order in which they end.
    served: Option<DiskServer>,
    folder: ScratchFolder,
    pair: PeerPair,
    /// Rises with each call, so that no two calls read the same pages.
    seed: Cell<u64>,
}

impl BorrowingPeer {
    /// Makes the certificates of both daemons. The borrower does not run yet.
    pub(super) fn new(sublet: &Path) -> Result<BorrowingPeer, BlockError> {
        let folder = ScratchFolder::new()?;
        let free = || Ok::<_, io::Error>(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let pair = PeerPair::new(sublet, &folder, [free()?, free()?])?;
        Ok(BorrowingPeer {
            served: None,
            folder,
            pair,
            seed: Cell::new(0),
        })
    }

    /// The lender's config.
    pub(super) fn lender_config(&self) -> String {
        format!("{}[lend]\nmax_each = \"100%\"\n", self.pair.lender_table())
    }

    /// Starts the borrower. It borrows at most this.
    pub(super) fn start(&mut self, sublet: &Path, most: Bytes) -> Result<(), BlockError> {
        let image = self.folder.sparse("holes.img", DISK)?;
        let tables = self.pair.borrower_tables(most, OUTBOX);
        // The first of these lines belongs to the disk. It keeps each page that it reads, so that it soon evicts others.
        let tables = format!("fill = \"miss\"\n{tables}");
        let slow = Some(SLOW);
        let served = DiskServer::ours_in_arena(sublet, &self.folder, &image, slow, ARENA, &tables);
        self.served = Some(served?);
        Ok(())
    }

    /// Reads for a moment. What it evicts goes to the lender.
    pub(super) fn read_some(&self) -> Result<(), BlockError> {
        let seed = PlaceSeed(self.seed.replace(self.seed.get() + 1));
        match &self.served {
            Some(served) => drive::reads(served, DEPTH, DISK, seed, READS_FOR).map(drop),
            None => Ok(()),
        }
    }
}
