//! The lender's side: threads that serve reads and writes of lent blocks.

mod control_queries;
mod due_connections;
mod inbox;
mod page_service;
mod rate_bucket;
mod served_connection;
mod server_figures;
mod serving_budget;
mod serving_thread;
mod start;

pub use control_queries::{
    AdmitConnections, AdmittedConnection, ConnectionRefused, FindLentBlocks,
};
pub use server_figures::{PageServerFigures, ServedPages};
pub use serving_budget::{CpuShare, ServingRate};
pub use start::{PAGE_SERVER_THREADS_MAX, PageServer, PageServerError, PageServerSettings};
