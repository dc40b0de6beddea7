//! A host with its virtual machines in virtual time: workloads and public traces in front of a tier of
//! spare memory, judges beside it, figures and plots out of it.
//!
//! One thread, one seed, no clock and no files: the same scenario and seed give the same bytes.

#![forbid(unsafe_code)]

pub mod cached_disk;
pub mod chance;
pub mod compare;
pub mod eviction;
mod judges;
pub mod machine;
pub mod misses;
pub mod outcome;
pub mod papers;
pub mod plot;
mod rate;
pub mod report;
pub mod run;
pub mod scenario;
pub mod sharing;
mod table;
pub mod traces;
mod virtual_time;
mod within;
pub mod workload;
