//! What a disk in front of a backing decides by itself: which reads are sequential, and which pages are worth keeping.
//!
//! The module does no I/O and allocates nothing once made, because disks call it in the middle of a request.

mod admission;
mod streams;

pub use admission::{
    Admission, AdmissionSettings, GHOSTS_PER_PAGE, ReadCause, Retention, SEQUENTIAL_FROM,
};
pub use streams::{ReadAdvice, ReadAheadWindow, ReadStreams, STREAMS};
