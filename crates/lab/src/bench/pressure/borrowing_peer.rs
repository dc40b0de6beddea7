//! A second daemon that borrows all that the daemon under test has. A client puts more pages into its ring than its own
//! arena holds, so that the evicted ones go to the lender.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use sublet_client::ring::{Client, Key};
use sublet_types::{Bytes, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, PoolId};

use super::super::disks::disk_server::DiskServer;
use super::super::disks::error::BlockError;
use super::super::folder::ScratchFolder;
use super::super::lend::peer_pair::PeerPair;
use super::super::page_content::page_content;
use super::super::tested_server::free_port;

/// The size of the disk that the daemon has besides. Nobody reads it.
const DISK: Bytes = Bytes::mib(1);

/// The borrower's arena. Half of it may hold records of borrowed blocks, which is enough for 20 GiB of them.
const ARENA: Bytes = Bytes::mib(768);

/// The borrower's outbox: the default.
const OUTBOX: Bytes = Bytes::mib(4);

/// Puts that are sent together, and how long it puts between two looks at the lender.
const BATCH: u64 = 32;
const PUTS_FOR: Duration = Duration::from_millis(200);

/// A daemon that borrows.
pub(super) struct BorrowingPeer {
    // In the order in which they end.
    pages: Option<RefCell<NewPages>>,
    served: Option<DiskServer>,
    folder: ScratchFolder,
    pair: PeerPair,
}

/// A client that puts pages. No page is put twice.
struct NewPages {
    client: Client,
    pool: PoolId,
    next: u64,
    content: Vec<u8>,
}

impl BorrowingPeer {
    /// Makes the certificates of both daemons. The borrower does not run yet.
    pub(super) fn new(sublet: &Path) -> Result<BorrowingPeer, BlockError> {
        let folder = ScratchFolder::new()?;
        let free = || Ok::<_, io::Error>(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
        let pair = PeerPair::new(sublet, &folder, [free()?, free()?])?;
        Ok(BorrowingPeer {
            pages: None,
            served: None,
            folder,
            pair,
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
        let ring = self.folder.join("pages.ring");
        let tenant = format!("[tenants.pages]\nlisten = [\"ring:{}\"]\n", ring.display());
        let tables = tenant + &tables;
        let served = DiskServer::ours_in_arena(sublet, &self.folder, &image, None, ARENA, &tables);
        self.served = Some(served?);
        self.pages = Some(RefCell::new(NewPages::connect(&ring)?));
        Ok(())
    }

    /// Puts pages for a moment, each of them new. What they displace goes to the lender.
    pub(super) fn put_some(&self) -> Result<(), BlockError> {
        let Some(pages) = &self.pages else {
            return Ok(());
        };
        let until = Instant::now() + PUTS_FOR;
        while Instant::now() < until {
            pages.borrow_mut().put_batch()?;
        }
        Ok(())
    }
}

impl NewPages {
    fn connect(ring: &Path) -> io::Result<NewPages> {
        let mut client = Client::connect(ring).map_err(io::Error::other)?;
        let pool = client.create_pool(PoolFlags::default(), None);
        Ok(NewPages {
            pool: pool.map_err(io::Error::other)?,
            client,
            next: 0,
            content: page_content(PAGE_BYTES as usize),
        })
    }

    fn put_batch(&mut self) -> io::Result<()> {
        let mut batch = self.client.batch();
        for number in self.next..self.next + BATCH {
            let key = Key {
                pool: self.pool,
                object: ObjectId(number >> 20),
                index: PageIndex(number as u32 % (1 << 20)),
            };
            let (_, page) = batch.put(key).map_err(io::Error::other)?;
            page.copy_from_slice(&self.content);
            page[..8].copy_from_slice(&number.to_le_bytes());
        }
        batch.run().map_err(io::Error::other)?;
        self.next += BATCH;
        Ok(())
    }
}
