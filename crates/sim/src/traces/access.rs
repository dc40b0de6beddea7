//! One request of a trace, whatever its format.

use crate::virtual_time::Moment;

/// Bytes of a disk's sector, in which two of the formats count.
pub const SECTOR_BYTES: u64 = 512;

/// Pages of one request, at the most: 4 GiB. More is a number that was misread.
pub(super) const REQUEST_PAGES_MAX: u64 = 1 << 20;

/// What is wanted where there are more.
pub(super) const TOO_LONG: &str = "a request of 4 GiB or less";

/// Pages in an object of a block trace: a 2 MiB extent, as the store cuts disks into objects.
pub const EXTENT_PAGES: u64 = 512;

/// One request of a trace, in whole pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When, since the trace's first request; where the format tells no time, the beginning.
    pub at: Moment,
    /// The first page.
    pub page: TracePage,
    /// What follows the object's last page.
    pub space: Space,
    /// Pages, at least 1.
    pub count: u32,
    /// What is done.
    pub op: Op,
}

impl Access {
    /// A read of one page of a device, in a trace that tells no times.
    pub(super) fn read_of_device(page: u64) -> Access {
        Access {
            at: Moment::START,
            page: TracePage::of_device(page),
            space: Space::Device,
            count: 1,
            op: Op::Read,
        }
    }
}

/// What a trace's objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Extents of 2 MiB of one device: a run of pages goes on in the next.
    Device,
    /// Objects of any size, which have nothing to do with each other.
    Objects,
}

/// A page by the name that a trace has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TracePage {
    /// The file, or the 2 MiB extent of the device.
    pub object: u64,
    /// The page in it.
    pub index: u32,
}

impl TracePage {
    /// Page number `page` of a device.
    pub(crate) fn of_device(page: u64) -> TracePage {
        TracePage {
            object: page / EXTENT_PAGES,
            index: (page % EXTENT_PAGES) as u32,
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads pages.
    Read,
    /// Writes pages.
    Write,
}
