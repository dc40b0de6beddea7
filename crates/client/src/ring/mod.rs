//! The page ring: a daemon's memory for programs on the same host, a page at a time.
//!
//! A program connects to a tenant's Unix socket. The daemon knows it by that socket and by its user, and gives it a ring
//! in shared memory: requests go in, answers come out, and pages lie where both sides see them.
//! While requests keep coming neither side sleeps, so a page is a microsecond or two away; while none
//! come, neither uses the processor.
//!
//! # Verbs
//!
//! A page has 4096 bytes and a three-part name: a *pool*, an *object* in it (a number of 64 bits: a file, an extent), an
//! *index* in that (32 bits: the page of the file).
//!
//! | verb | what it does |
//! | --- | --- |
//! | put | stores a page, in place of an older one of that name |
//! | get | fetches a page |
//! | flush_page, flush_object | forget a page, or all pages of an object |
//! | create_pool, destroy_pool | make a pool, or forget one and all in it |
//!
//! What a pool promises is fixed when it is made:
//!
//! - **ephemeral** (the default): a page may vanish at any time, so a get may miss. A hit *takes* the page: the next
//!   get misses, unless the pool is **keeping**. This is for what can be read or computed again.
//! - **persistent**: a page that was stored comes back until it is flushed. A put may be refused; keep the
//!   page yourself then.
//! - **shared**: pools of one name are one pool. The daemon's config says who may use which name.
//!
//! Any put may be refused, for any reason. Whatever became of it, an older page of that name is never
//! returned again. A pool without a shared name ends with its connection.
//!
//! # Handles
//!
//! [`Client`] waits for each answer; its [`batch`](Client::batch) sends many requests together and
//! fills and reads their pages in place. `AsyncClient` (feature `async`) is shared by many tasks, and has batches too. C and Python have the same verbs
//! (feature `ffi`, `sublet_ring.h`, `clients/python`).
//!
//! ```no_run
//! use sublet_client::ring::{Client, Get, Key};
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
//!     Get::Hit => assert_eq!(page[0], 42),
//!     Get::Miss | Get::Refused(_) => println!("read it from the disk, then"),
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
//! The daemon believes nothing that lies in the ring: it copies each entry once, checks it, and answers nonsense with an
//! error that names it. A client that dies, floods or writes garbage harms itself alone. A client trusts
//! the daemon with its pages, as it must in any case. [`layout`] describes every byte, for those who speak it from another
//! language, and [`DaemonEnd`] is the other side of it.

#[cfg(feature = "async")]
mod async_batch;
#[cfg(feature = "async")]
mod asynchronous;
mod batch;
mod bell;
mod client;
mod client_end;
mod daemon_end;
pub mod hello;
pub mod layout;
mod mapped;
mod patience;
#[cfg(feature = "async")]
mod slots;
#[cfg(test)]
pub(crate) mod tests;
mod verbs;

#[cfg(feature = "async")]
pub use async_batch::{AsyncAnswers, AsyncBatch};
#[cfg(feature = "async")]
pub use asynchronous::AsyncClient;
pub use batch::{Answers, Batch, BatchError, Ticket};
pub use bell::{Bell, Sleep};
pub use client::{Client, SHAPE};
pub use client_end::{NoRing, Page};
pub use daemon_end::{DaemonEnd, Garbage, PageSlot, SlotRun};
pub use hello::{ConnectError, Farewell, Rejection};
pub use layout::{Fault, Refusal, Shape, ShapeError};
pub use verbs::{CallError, Get, Key, Put, Run};
