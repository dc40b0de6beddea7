//! Why lending could not be measured.

use std::io;

use sublet_host::peers::courier::CourierError;
use sublet_host::peers::page_fetcher::GoneCause;
use sublet_host::peers::page_server::PageServerError;
use sublet_store::{CreatePoolError, OpenLeaseError, TenantError, TooManyWorkers};
use sublet_types::{Bytes, TenantNameError};

use super::super::disks::error::BlockError;
use super::super::sublet_option::SubletNotFound;

/// Why lending could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LendBenchError {
    /// There are no namespaces.
    #[error(
        "cannot make two network namespaces: {0}; the bench needs root and the package iproute2"
    )]
    Namespaces(io::Error),
    /// A server does not do what it should.
    #[error("{server}: {cause}")]
    Server {
        /// The server.
        server: &'static str,
        /// The cause.
        cause: io::Error,
    },
    /// A server answered with wrong bytes.
    #[error("{0} answered with bytes of another page")]
    WrongPage(&'static str),
    /// A page that the lender has did not come.
    #[error("the lender's page did not come: {0:?}")]
    Gone(GoneCause),
    /// The lender's guard shut, although no time limit was meant to be reached.
    #[error("the lender was not asked: leave the machine alone while the bench measures")]
    NotAsked,
    /// The borrower kept too few pages at the lender.
    #[error("only {0} pages went to the lender")]
    FewPages(usize),
    /// The lender has too few of a disk's pages.
    #[error("only {0:.0} % of the reads were of pages that the lender has")]
    FewAtLender(f64),
    /// The borrower's daemon does not tell what it did.
    #[error("cannot ask the daemon what it borrowed: {0}")]
    Asked(#[from] sublet_client::AdminError),
    /// The lender had less to lend than it was started for.
    #[error("the lender could lend {0} blocks only: the machine has too little free memory")]
    FewBlocks(u32),
    /// The borrower that was to be busy reads nothing.
    #[error("the borrower reads nothing, so its lender's figures are not those of a lender in use")]
    IdleBorrower,
    /// Not all came back that was lent.
    #[error("only {0} of the lent memory came back")]
    NotBack(Bytes),
    /// The program to measure was not found.
    #[error(transparent)]
    NoSublet(#[from] SubletNotFound),
    /// Disks could not be compared.
    #[error(transparent)]
    Disks(#[from] BlockError),
    /// Its tenant could not be named.
    #[error(transparent)]
    Name(#[from] TenantNameError),
    /// Its tenant could not be added.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// Its pool could not be made.
    #[error(transparent)]
    Pool(#[from] CreatePoolError),
    /// The lease could not be added.
    #[error(transparent)]
    Lease(#[from] OpenLeaseError),
    /// A store has no slot for a worker.
    #[error(transparent)]
    Worker(#[from] TooManyWorkers),
    /// The courier did not start.
    #[error(transparent)]
    Courier(#[from] CourierError),
    /// The page server did not start.
    #[error(transparent)]
    PageServer(#[from] PageServerError),
    /// The system refused.
    #[error("the system refused what the bench needs: {0}")]
    System(#[from] io::Error),
}
