//! A borrower that writes and reads pages of a lender without end, in a process of its own.

use std::net::SocketAddr;
use std::thread;

use sublet_lend::ids::LeaseId;
use sublet_sim::rng::SimRng;

use super::borrowed_pages::fetcher;
use super::borrower_store::BorrowerStore;
use super::child_server::say_and_wait;
use super::error::LendBenchError;
use super::lender_store::LentPlace;
use super::test_page::TestPage;
use crate::exit::Exit;

/// Pages that it writes again and again: more than it has memory for, and fewer than any lease has.
const PAGES: u32 = 16_384;

/// Pages that it reads after each page that it writes.
const READ_AT_ONCE: usize = 8;

/// Borrow memory of a bench, and use it.
#[derive(Debug, clap::Args)]
pub(crate) struct BusyBorrowerArgs {
    /// Borrow of the lender at this address.
    lender: SocketAddr,
    /// Use this lease.
    lease: u32,
    /// Use its blocks from this one on.
    first: u32,
    /// Use this many blocks.
    blocks: u32,
}

impl BusyBorrowerArgs {
    /// The command line of a borrower of this lender.
    pub(super) fn command_line(lent: LentPlace) -> [String; 5] {
        [
            "bench-borrower".to_owned(),
            lent.address.to_string(),
            lent.lease.0.to_string(),
            lent.first.to_string(),
            lent.blocks.to_string(),
        ]
    }

    fn lent(&self) -> LentPlace {
        LentPlace {
            address: self.lender,
            lease: LeaseId(self.lease),
            first: self.first,
            blocks: self.blocks,
        }
    }
}

/// Borrows until the bench ends.
pub(in crate::bench) fn borrow(args: &BusyBorrowerArgs) -> Exit {
    match borrow_and_wait(args) {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(error),
    }
}

fn borrow_and_wait(args: &BusyBorrowerArgs) -> Result<(), LendBenchError> {
    let lent = args.lent();
    // The store stays in the thread that uses it.
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    thread::spawn(move || {
        let filled = BorrowerStore::new(lent).and_then(|borrower| {
            for page in (0..PAGES).map(TestPage) {
                borrower.put(page)?;
            }
            Ok(borrower)
        });
        let (borrower, began) = match filled {
            Ok(borrower) => (Some(borrower), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Whoever started the thread waits for this.
        let _ = ready.send(began);
        if let Some(borrower) = borrower {
            use_pages(&borrower);
        }
    });
    is_ready
        .recv()
        .map_err(|_| std::io::Error::other("the borrower's thread ended"))??;
    Ok(say_and_wait(&[0])?)
}

/// Writes and reads without end. What the lender took back is missed, and is written again.
fn use_pages(borrower: &BorrowerStore) -> ! {
    let mut rng = SimRng::seeded(5);
    let mut reader = fetcher(borrower);
    loop {
        let page = TestPage(rng.below(PAGES.into()) as u32);
        // The courier may carry nothing meanwhile.
        let _ = borrower.put(page);
        let pages = (0..READ_AT_ONCE).map(|_| TestPage(rng.below(PAGES.into()) as u32));
        let tickets: Vec<_> = pages.filter_map(|page| borrower.ticket(page)).collect();
        reader.fetch(&tickets, |_, _| {});
    }
}
