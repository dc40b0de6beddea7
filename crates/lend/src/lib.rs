//! Lending between hosts: what two daemons say to each other, how pages are sealed, who holds which lease, and when a
//! lender is too slow to ask. Everything here is sans I/O: time, bytes and randomness are arguments.

pub mod borrower;
pub mod control;
pub mod guard;
pub mod ids;
pub mod index_set;
pub mod leader;
pub mod lender;
pub mod node;
pub mod seal;
pub mod wanted;
pub mod wire;
