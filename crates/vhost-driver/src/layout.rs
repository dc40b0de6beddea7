//! The layout of a queue, the requests to a disk, and its answers.

use std::io;

/// Descriptors of a slot: header, bytes, status.
pub(crate) const SLOT_DESCRIPTORS: u16 = 3;

/// Bytes of a slot's header, range and status, with its descriptors behind them.
pub(crate) const SLOT_HEAD_BYTES: u64 = 128;

pub(crate) const PAGE: u64 = 4096;

/// How a driver lays out its memory and uses its queues.
#[derive(Clone, Debug)]
pub struct DriverSettings {
    /// How many queues there are.
    pub queues: u16,
    /// Entries of a queue's rings, a power of two. With direct descriptors it must be at least three times `slots`.
    pub queue_size: u16,
    /// How many requests of a queue may be under way.
    pub slots: u16,
    /// The most bytes of a request.
    pub slot_bytes: u32,
    /// Whether the driver asks for notifications by index.
    pub event_index: bool,
    /// Whether a request takes one descriptor in the ring and three in a table of its own.
    pub indirect: bool,
    /// Whether the memory is sealed against shrinking, so that it stays.
    pub sealed: bool,
}

impl Default for DriverSettings {
    /// One queue, 32 requests of up to 64 KiB.
    fn default() -> DriverSettings {
        DriverSettings {
            queues: 1,
            queue_size: 128,
            slots: 32,
            slot_bytes: 64 << 10,
            event_index: true,
            indirect: true,
            sealed: true,
        }
    }
}

impl DriverSettings {
    pub(crate) fn rings_bytes(&self) -> u64 {
        let size = u64::from(self.queue_size);
        (16 * size).next_multiple_of(PAGE)
            + (6 + 2 * size).next_multiple_of(PAGE)
            + (6 + 8 * size).next_multiple_of(PAGE)
    }

    pub(crate) fn slot_stride(&self) -> u64 {
        u64::from(self.slot_bytes).next_multiple_of(PAGE)
    }

    pub(crate) fn queue_bytes(&self) -> u64 {
        let slots = u64::from(self.slots);
        let heads = (SLOT_HEAD_BYTES * slots).next_multiple_of(PAGE);
        self.rings_bytes() + heads + slots * self.slot_stride()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.queue_bytes() * u64::from(self.queues)
    }
}

/// Why the driver failed.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The daemon refused a call, or is not there.
    #[error("the daemon refused: {0}")]
    Refused(#[from] vhost::Error),
    /// The same, before there was a connection.
    #[error("no connection: {0}")]
    NotConnected(#[from] vhost::vhost_user::Error),
    /// The kernel refused a call.
    #[error("the kernel gave no memory or event: {0}")]
    Kernel(#[from] io::Error),
    /// The memory is not laid out as expected.
    #[error("cannot access the guest's memory: {0}")]
    Memory(#[from] vm_memory::GuestMemoryError),
    /// The daemon answered a request that was not under way, or answered it twice.
    #[error("the used ring has descriptor {0}, which is not under way")]
    NotUnderWay(u32),
    /// The queue has no room for its slots.
    #[error("the queue is too small for its slots")]
    QueueTooSmall,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverRequest {
    /// Reads bytes into the slot.
    Read {
        /// The first sector.
        sector: u64,
        /// How many bytes.
        bytes: u32,
    },
    /// Writes bytes from the slot.
    Write {
        /// The first sector.
        sector: u64,
        /// How many bytes.
        bytes: u32,
    },
    /// Flushes the disk.
    Flush,
    /// Reads the disk's name into the slot.
    Name,
    /// Discards a range.
    Discard {
        /// The first sector.
        sector: u64,
        /// How many sectors.
        sectors: u32,
        /// The flags, usually 0.
        flags: u32,
    },
    /// Makes a range zero.
    Zeroes {
        /// The first sector.
        sector: u64,
        /// How many sectors.
        sectors: u32,
        /// The flags. 1 allows the disk to unmap the range.
        flags: u32,
    },
    /// A request of any type, with bytes that the device reads from the slot or writes to it.
    Other {
        /// The number of the type.
        kind: u32,
        /// Bytes that the device reads.
        readable: u32,
    },
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCompletion {
    /// The slot of the request.
    pub slot: u16,
    /// The status byte; 0 is success.
    pub status: u8,
    /// Bytes that the device says it wrote.
    pub written: u32,
}

/// The status that no device writes.
pub const NO_STATUS: u8 = 0xaa;
