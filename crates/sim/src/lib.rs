//! Simulates a host with its virtual machines in virtual time. Workloads and public traces use a tier of spare memory.
//! Judges watch the tier, and the results are figures and plots.
//!
//! There is one thread, one seed, no clock and no file. The same scenario and seed give the same bytes.

#![forbid(unsafe_code)]

mod bounds;
pub mod cached_disk;
pub mod cluster;
pub mod compare;
pub mod eviction;
pub mod figures;
mod judges;
pub mod machine;
pub mod misses;
pub mod outcome;
pub mod papers;
pub mod placement;
pub mod plot;
pub mod puma;
mod rate;
pub mod report;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod sharing;
mod stable_hash;
pub mod traces;
mod virtual_time;
pub mod vmca;
pub mod workload;
