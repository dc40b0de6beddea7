//! vMCA's scenarios (Garrido and Carpenter, 2017): four nodes with 1 GB of spare memory each, of which two run virtual
//! machines and borrow of the other two.
//!
//! ```text
//!   node 1, node 2: idle            node 3, node 4: three virtual machines each
//!        │ lend blocks                   │ swap ──put, get──► tier: own memory, then borrowed (50 µs more) ──full──► disk
//!        └────────── leader ◄────────────┘ each second: what the node lacks
//!                 placement policy           node policy: targets of the virtual machines
//! ```
//!
//! The policies are the daemon's own code, both inside a node and between nodes. Guests, disks and the tier are the
//! simulator's, as in SmarTmem's scenarios.

mod acceptance;
mod cluster;
mod coarse;
mod loans;
mod model;
mod outcome;
mod paper;
mod plots;
mod policies;
mod report;
mod scale;
mod scenarios;
mod wish;

pub use cluster::VmcaRun;
pub use model::VmcaModel;
pub use outcome::{NodeOutcome, RunningTime, VmcaOutcome};
pub use plots::plots;
pub use policies::{StepPercent, VmcaPolicy};
pub use report::VmcaReport;
pub use scale::{VmcaScale, VmcaScaleError};
pub use scenarios::{UnknownScenario, VmcaScenario};

#[cfg(test)]
mod tests;
