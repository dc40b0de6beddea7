//! The format in which a tenant's state leaves a store and comes into another. Each module adds its part and reads it
//! again.
//!
//! ```text
//!  head      "SUBLETPG" version:u32 page_bytes:u32 frozen:u8
//!            eviction:u8 weight:u32 floor:u64 ceiling:u64                           (2⁶⁴ − 1: none)
//!            pools:u32
//!  pools     number:u32 flags:u8 shared:u128                       (each, in the order of their making)
//!  head sum  xxh3-128 of all that came before
//!  pages     'P' number:u32 object:u64 index:u32 page… xxh3-128 of these            (each)
//!  end       'E' pages:u64 xxh3-128 of every sum before, in their order
//! ```
//!
//! Numbers are little-endian. Version 1 had no weight, floor and ceiling. The format is written and read from beginning
//! to end without seeking, so a file, a pipe and a socket all work.

mod fields;
mod grants;
mod stream;

pub(crate) use fields::FieldReader;
pub(crate) use stream::{SaveReader, SaveWriter};
