//! What a queue is made of, what is asked of a disk and what it answers.

use std::io;

/// Descriptors of a slot: header, bytes, status.
pub(crate) const SLOT_DESCRIPTORS: u16 = 3;

/// Bytes of a slot's header, its range and its status, its descriptors behind them.
pub(crate) const SLOT_HEAD_BYTES: u64 = 128;

pub(crate) const PAGE: u64 = 4096;

/// How a driver drives.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Queues.
    pub queues: u16,
    /// Places of a queue's rings, a power of two; with direct descriptors at least three times `slots`.
    pub queue_size: u16,
    /// Requests of a queue at a time.
    pub slots: u16,
    /// The most bytes of a request.
    pub slot_bytes: u32,
    /// Notifications are asked for by index.
    pub event_index: bool,
    /// A request is one descriptor in the ring, and three in a table of their own.
    pub indirect: bool,
    /// The memory is sealed against shrinking, so that it stays.
    pub sealed: bool,
}

impl Default for Layout {
    /// One queue, 32 requests of up to 64 KiB.
    fn default() -> Layout {
        Layout {
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

impl Layout {
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

/// Why driving failed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The daemon refused, or is not there.
    #[error("the daemon does not do as it is asked: {0}")]
    Refused(#[from] vhost::Error),
    /// The same, before there was a connection.
    #[error("no connection: {0}")]
    NotConnected(#[from] vhost::vhost_user::Error),
    /// The kernel refused.
    #[error("no memory or event for driving: {0}")]
    Kernel(#[from] io::Error),
    /// The memory is not laid out as thought.
    #[error("the guest's own memory: {0}")]
    Memory(#[from] vm_memory::GuestMemoryError),
    /// The daemon answered a request that it was not asked, or twice.
    #[error("descriptor {0} is in the used ring, and is not under way")]
    NotUnderWay(u32),
    /// The layout has no room for its slots.
    #[error("the queue is too small for its slots")]
    Small,
}

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Reads so many bytes into the slot.
    Read {
        /// The first sector.
        sector: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Writes so many bytes from the slot.
    Write {
        /// The first sector.
        sector: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Flushes.
    Flush,
    /// Reads the disk's name into the slot.
    Name,
    /// Discards a range.
    Discard {
        /// The first sector.
        sector: u64,
        /// Sectors.
        sectors: u32,
        /// Flags, 0 as a rule.
        flags: u32,
    },
    /// Writes zeroes.
    Zeroes {
        /// The first sector.
        sector: u64,
        /// Sectors.
        sectors: u32,
        /// 1: it may be unmapped.
        flags: u32,
    },
    /// Any kind, with bytes for the device to read from the slot and to write to it.
    Other {
        /// Its number.
        kind: u32,
        /// Bytes that the device reads.
        readable: u32,
    },
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub slot: u16,
    /// Its status byte; 0 is good.
    pub status: u8,
    /// Bytes that the device says it wrote.
    pub written: u32,
}

/// The status that no device writes.
pub const NO_STATUS: u8 = 0xaa;
