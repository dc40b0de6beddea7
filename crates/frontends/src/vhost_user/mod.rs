//! vhost-user-blk: a disk for a virtual machine, through memory that the VMM shares.
//!
//! The VMM connects to a disk's socket and says where the guest's memory and queues are (`serve/vmm`). From then on
//! guest and daemon talk through the queues alone. Each queue has a thread (`serve/worker`). The thread takes requests
//! from the ring (`session`, [`wire`]) and first asks its [`DiskFastPath`](crate::block_device::DiskFastPath). It sends
//! what memory cannot answer to the [`Disk`](crate::block_device::Disk), and answers the guest. The daemon trusts
//! nothing in the guest's memory ([`map`]). If a guest's memory vanishes, only that guest loses its disk (`guard`).
//!
//! # Why a killed daemon hangs no guest
//!
//! The protocol has a remedy of its own: a table of requests under way that outlives the daemon (INFLIGHT_SHMFD). The
//! daemon does not need it. **Requests enter the used ring in the order in which they stood in the available ring**, in
//! whatever order the disk finished them.
//!
//! 1. A queue starts with its next request at the used ring's own index `u`. It takes requests `u`, `u + 1`, … of the
//!    available ring and answers them in that order. So at any instant it has answered exactly the requests `u …
//!    used.idx - 1`. `used.idx` counts the answers and names the first request without one.
//! 2. The queue writes an answer's bytes, its status and its used entry first. Then one atomic store moves `used.idx`.
//!    A process that dies before that store has not answered. A process that dies after it has.
//! 3. The guest reuses an available slot only after its request was answered, and no request is answered out of order.
//!    So the slots `used.idx … avail.idx - 1` and their descriptors still hold every unanswered request, unchanged.
//! 4. The next daemon that serves the ring starts at `used.idx`, which it reads from the guest's memory. (The index
//!    that the VMM names is a copy of it, perhaps an older one.) The daemon takes everything that is unanswered, in
//!    order, and nothing that was answered. No request is lost, and none is answered twice.
//! 5. A notification may have died with the process, so each queue notifies the guest once when it starts.
//!
//! A daemon may have carried out a request, wholly or in part, without answering it. The next daemon carries it out
//! again. That is harmless for a read, a flush, a discard or a single write.
//!
//! Two *overlapping writes* matter only if the older one is repeated after the newer one was answered. In one queue
//! that cannot happen, because the newer one is answered only after the older one. Over two queues it can happen. But
//! then the guest had both writes under way at once and did not wait for the older one's answer, so it had no claim on
//! their order. A third request that read meanwhile may have seen either write. A guest that reads what it is writing
//! has no claim on that order either.
//!
//! One case must not happen. A request of the old connection may still be on its way to the backing while its
//! repetition is answered already, and would then overwrite what came after. So a connection ends only when the disk
//! has given back all its requests, unpublished. The daemon accepts the next connection only then. After a kill, the
//! kernel's own requests may still be under way. They hold the backing's file and with it the file's lock. The next
//! daemon that serves the disk takes that lock first.
//!
//! A disk that leaves gives requests back with [`DiskFault::Leaving`](crate::block_device::DiskFault::Leaving). The
//! queue answers neither such a request nor any after it. The next daemon that serves the disk does.

mod guard;
pub mod map;
pub mod metrics;
mod munlock;
pub mod serve;
mod session;
pub mod wire;

/// The most entries of a queue's rings, the same as in QEMU.
pub(crate) const QUEUE_SIZE_MAX: u16 = 1024;

/// The most queues of a disk.
pub const QUEUES_MAX: u16 = 16;
