//! The page ring: a daemon's memory for programs on the same host, one page at a time.
//!
//! A program connects to a tenant's Unix socket. The daemon knows the program by that socket and by its user, and gives
//! it a ring in shared memory. Requests go in, answers come out, and pages lie where both sides see them. While
//! requests keep coming, neither side sleeps, so a page takes one or two microseconds. While none come, neither side
//! uses the processor.
//!
//! # Verbs
//!
//! A page has 4096 bytes and a name of three parts:
//!
//! - a *pool*,
//! - an *object* in the pool (a number of 64 bits: a file, an extent),
//! - an *index* in the object (32 bits: the page of the file).
//!
//! | verb | what it does |
//! | --- | --- |
//! | put | stores a page, in place of an older one of that name |
//! | get | fetches a page |
//! | flush_page, flush_object | forget a page, or all pages of an object |
//! | create_pool, destroy_pool | make a pool, or remove one and everything in it |
//!
//! A pool's promise is fixed when it is made:
//!
//! - **ephemeral** (the default): a page may vanish at any time, so a get may miss. A hit *takes* the page: the next
//!   get misses, unless the pool is **keeping**. Use this for what you can read or compute again.
//! - **persistent**: a stored page comes back until it is flushed. The daemon may refuse a put. Keep the page yourself
//!   then.
//! - **shared**: pools of one name are one pool. The daemon's config says who may use which name.
//!
//! The daemon may refuse any put, for any reason. Whatever the outcome, it never returns an older page of that name
//! again. A pool without a shared name ends with its connection.
//!
//! # Handles
//!
//! [`Client`] waits for each answer. Its [`batch`](Client::batch) sends many requests together, and you fill and read
//! their pages in place. Many tasks share one `AsyncClient` (feature `async`), which has batches too. C and Python have
//! the same verbs (feature `ffi`, `sublet_ring.h`, `clients/python`).
//!
//! ```no_run
//! use sublet_client::ring::{Client, GetOutcome, Key};
//! use sublet_types::{ObjectId, PageIndex, PoolFlags};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut client = Client::connect("/run/sublet/ring.sock")?;
//! let pool = client.create_pool(PoolFlags::default(), None)?;
//! let key = |index| Key { pool, object: ObjectId(7), index: PageIndex(index) };
//!
//! client.put(key(0), &[42; 4096])?;
//! let mut page = [0; 4096];
//! match client.get(key(0), &mut page)? {
//!     GetOutcome::Hit => assert_eq!(page[0], 42),
//!     GetOutcome::Miss | GetOutcome::Refused(_) => println!("read it from the disk, then"),
//! }
//!
//! let mut batch = client.batch();
//! for index in 0..32 {
//!     let (_, page) = batch.put(key(index))?;
//!     page.fill(index as u8);
//! }
//! let answers = batch.run()?;
//! # let _ = answers;
//! # Ok(())
//! # }
//! ```
//!
//! # Trust
//!
//! The daemon trusts nothing in the ring. It copies each entry once, checks it, and answers nonsense with an error that
//! names it. A client that dies, floods or writes garbage harms only itself. A client trusts the daemon with its pages,
//! as it must in any case. [`layout`] describes every byte, for implementations in other languages. [`DaemonEnd`] is
//! the daemon's side.

#[cfg(feature = "async")]
mod async_batch;
#[cfg(feature = "async")]
mod asynchronous;
mod batch;
mod client;
mod client_end;
mod daemon_end;
mod doorbell;
pub mod hello;
pub mod layout;
mod mapped;
#[cfg(feature = "async")]
mod slot_allocator;
mod spin_wait;
#[cfg(test)]
pub(crate) mod tests;
mod verbs;

#[cfg(feature = "async")]
pub use async_batch::{AsyncAnswers, AsyncBatch};
#[cfg(feature = "async")]
pub use asynchronous::AsyncClient;
pub use batch::{Answers, Batch, BatchError, Ticket};
pub use client::{Client, DEFAULT_SHAPE};
pub use client_end::{InvalidRing, Page};
pub use daemon_end::{CorruptIndex, DaemonEnd, PageSlot, SlotRun};
pub use doorbell::{SleepAttempt, Wakeup};
pub use hello::{CloseReason, ConnectError, Rejection};
pub use layout::{Fault, Refusal, Shape, ShapeError};
pub use verbs::{CallError, GetOutcome, Key, PutOutcome, RunOutcome};
