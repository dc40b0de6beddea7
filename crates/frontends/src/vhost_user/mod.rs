//! vhost-user-blk: a disk for a virtual machine, through memory that the VMM shares.
//!
//! The VMM connects to a disk's socket and tells where the guest's memory and queues are (`serve/vmm`); from then on
//! guest and daemon talk through the queues alone. Each queue has a thread (`serve/worker`), which takes requests
//! from the ring (`session`, [`wire`]), asks its [`Desk`](crate::block::Desk) first, sends what memory cannot
//! answer to the [`Disk`](crate::block::Disk), and answers. Nothing in the guest's memory is believed
//! ([`map`]), and memory that vanishes costs nobody but its guest (`guard`).
//!
//! # Why a killed daemon hangs no guest
//!
//! The protocol's own remedy, a table of requests under way that outlives the daemon (INFLIGHT_SHMFD), is not needed,
//! because **requests enter the used ring in the order in which they stood in the available ring**, whatever the
//! order in which the disk finished them.
//!
//! 1. A queue starts with its next request at the used ring's own index `u`, and takes requests `u`, `u + 1`, … of the
//!    available ring. It answers them in that order, so at any instant the requests answered since are exactly `u …
//!    used.idx - 1`: `used.idx` counts the answers and names the first request without one.
//! 2. An answer's bytes, its status and its used entry are written before `used.idx` moves, by one atomic store. A
//!    process that dies before that store has not answered; one that dies after has.
//! 3. The guest reuses an available slot only after its request was answered, and none was answered out of order. So the
//!    slots `used.idx … avail.idx - 1` and their descriptors still hold every unanswered request, unchanged.
//! 4. Who serves the ring next starts at `used.idx` (read from the guest's memory; the index that the VMM names is a
//!    copy of it, perhaps an older one). It takes all that is unanswered, in order, and nothing that was answered. No
//!    request is lost, none is answered twice.
//! 5. A notification may have died with the process, so each queue notifies once when it starts.
//!
//! A request without an answer may have been carried out before, wholly or in part, and is carried out again. For a
//! read, a flush, a discard or a single write that is harmless. Two *overlapping writes* matter only if the older one
//! is repeated after the newer one was answered. In one queue that cannot be: the newer one was answered only after
//! the older. Over two queues it can: but then the guest had both under way at once, without waiting for the older
//! one's answer, and had no claim on their order. (What a third request read meanwhile may have shown one and the
//! other; a guest that reads what it is writing has no claim on that either.)
//!
//! One thing must not be: a request of the old connection that is still on its way to the backing while its
//! repetition is answered already, and then overwrites what came after. So a connection ends only when the disk has
//! given back all its requests, unpublished, and the next is accepted only then. After a kill the kernel's own
//! requests may still be under way; they hold the backing's file and with it its lock, which whoever serves the disk
//! next takes first.
//!
//! A request that the disk gives back because it is leaving ([`Fault::Leaving`](crate::block::Fault::Leaving)) is not
//! answered, nor is any after it: who serves the disk next does that.

mod guard;
pub mod map;
pub mod metrics;
pub mod serve;
mod session;
mod unlocked;
pub mod wire;

/// The most places of a queue's rings, as QEMU has it.
pub(crate) const QUEUE_SIZE_MAX: u16 = 1024;

/// The most queues of a disk.
pub const QUEUES_MAX: u16 = 16;
