//! What a disk in front of a backing decides by itself: who reads in order, and which pages are worth keeping.
//!
//! Pure, and without allocation once made: disks call them in the middle of a request.

mod admission;
mod streams;

pub use admission::{Admission, AdmissionSettings, Coming, Stay};
pub use streams::{Advice, STREAMS, Streams, Window};
