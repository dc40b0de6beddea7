//! The lender of the bench, in a process of its own.

use std::net::IpAddr;

use sublet_types::Bytes;

use super::child_server::say_and_wait;
use super::error::LendBenchError;
use super::lender_store::LenderStore;
use crate::exit::Exit;

/// Lend memory to a bench.
#[derive(Debug, clap::Args)]
pub(crate) struct LenderArgs {
    /// Listen at this address.
    address: IpAddr,
    /// Lend this amount.
    amount: Bytes,
}

/// Lends until the bench ends.
pub(in crate::bench) fn lend(args: &LenderArgs) -> Exit {
    match lend_and_wait(args) {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(error),
    }
}

fn lend_and_wait(args: &LenderArgs) -> Result<(), LendBenchError> {
    let lender = LenderStore::start(args.amount, (args.address, 0).into())?;
    let lent = lender.lend(args.amount)?;
    let port = u32::from(lent.address.port());
    Ok(say_and_wait(&[
        port,
        lent.lease.0,
        lent.first,
        lent.blocks,
    ])?)
}
