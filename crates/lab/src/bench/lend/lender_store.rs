//! A lender: a store that lends blocks, and the daemon's page server before it. There is no control connection.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::thread;

use sublet_frontends::tenancy::Clock;
use sublet_host::peers::page_server::{CpuShare, PageServer, PageServerSettings, ServingRate};
use sublet_lend::ids::LeaseId;
use sublet_store::{PageSettings, Release, ReleaseOutcome, Store, StoreSettings, Worker};
use sublet_types::{BLOCK_BYTES, Bytes, LentBlock, PAGE_BYTES, ReleaseMode};

use super::error::LendBenchError;
use super::session::{BenchSession, LENDER_INCARNATION};

/// Memory that the store needs beside the blocks: the item index, and what it keeps for eviction.
const BESIDE: Bytes = Bytes::mib(64);

/// Pages of a block.
const BLOCK_PAGES: u16 = (BLOCK_BYTES / PAGE_BYTES) as u16;

/// Where a borrower finds blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LentPlace {
    /// The page server.
    pub(super) address: SocketAddr,
    /// The lease.
    pub(super) lease: LeaseId,
    /// Its first block.
    pub(super) first: u32,
    /// Its blocks.
    pub(super) blocks: u32,
}

/// A lender. Its page server ends with it.
pub(super) struct LenderStore {
    worker: Worker,
    clock: Clock,
    session: Arc<BenchSession>,
    server: Arc<PageServer>,
    address: SocketAddr,
}

impl LenderStore {
    /// A lender that may lend `amount`. It listens at this address.
    pub(super) fn start(amount: Bytes, at: SocketAddr) -> Result<LenderStore, LendBenchError> {
        let memory = amount + BESIDE;
        let store = Store::new(StoreSettings {
            capacity: memory,
            limit: memory,
            item_max: Bytes::mib(1),
            seed: 1,
            evicts: true,
            pages: PageSettings::default(),
        })?;
        let (clock, session) = (Clock::start(), BenchSession::new());
        let settings = PageServerSettings {
            threads: 1,
            cpu: CpuShare::Percent(100),
            rate: ServingRate::Unbounded,
            incarnation: LENDER_INCARNATION,
        };
        let (sessions, blocks) = (session.clone(), session.clone());
        let server = Arc::new(PageServer::start(
            &store, clock, sessions, blocks, settings,
        )?);
        let listener = TcpListener::bind(at)?;
        let address = listener.local_addr()?;
        hand_on(listener, Arc::downgrade(&server));
        Ok(LenderStore {
            worker: store.worker()?,
            clock,
            session,
            server,
            address,
        })
    }

    /// Lends blocks.
    pub(super) fn lend(&self, amount: Bytes) -> Result<LentPlace, LendBenchError> {
        let wanted = amount.0.div_ceil(BLOCK_BYTES) as u32;
        let lend = |_| self.worker.lend(self.clock.now());
        let blocks: Vec<LentBlock> = (0..wanted).map_while(lend).collect();
        if blocks.len() < wanted as usize {
            return Err(LendBenchError::FewBlocks(blocks.len() as u32));
        }
        let (lease, first) = self.session.grant(&blocks);
        self.write_all(&blocks);
        Ok(LentPlace {
            address: self.address,
            lease,
            first,
            blocks: wanted,
        })
    }

    /// Writes each page, so that all of the memory is there.
    fn write_all(&self, blocks: &[LentBlock]) {
        for block in blocks {
            for place in 0..BLOCK_PAGES {
                self.worker.write_lent(*block, place, |page| page.fill(7));
            }
        }
    }

    /// Memory that is lent.
    pub(super) fn lent(&self) -> Bytes {
        Bytes(u64::from(self.worker.store().lent()) * BLOCK_BYTES)
    }

    /// Gives memory back to the kernel. Lent blocks go.
    pub(super) fn release(&self, amount: Bytes) -> ReleaseOutcome {
        let release = Release {
            amount,
            mode: ReleaseMode::Fast,
            tenant: None,
        };
        self.worker.release(release, self.clock.now())
    }

    /// Pages that its borrowers have read since its start.
    pub(super) fn pages_read(&self) -> u64 {
        self.server.figures().pages_read
    }

    /// Records which blocks went, as the daemon does after each release.
    pub(super) fn note_taken_back(&self) {
        let taken = self.worker.store().drain_taken_back();
        self.session.mark_taken(&taken);
    }
}

/// Hands connections on to a server, as long as it is there. The thread ends with the next connection after that.
fn hand_on(listener: TcpListener, server: Weak<PageServer>) {
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let Some(server) = server.upgrade() else {
                return;
            };
            server.adopt(socket);
        }
    });
}
