//! The thread that carries evicted pages to lenders. A put never waits for it.

mod carried_lender;
mod carry_loop;
mod courier_figures;
mod gather_pace;
mod start;
mod write_connection;
mod write_message;

pub use courier_figures::CourierFigures;
pub use start::{Courier, CourierError};
