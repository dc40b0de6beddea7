//! One request of a trace, in any format.

use crate::rng::SimRng;
use crate::virtual_time::VirtualInstant;

/// Bytes of a disk's sector. Two of the formats count in sectors.
pub const SECTOR_BYTES: u64 = 512;

/// The most pages of one request: 4 GiB. A larger number was misread.
pub(super) const REQUEST_PAGES_MAX: u64 = 1 << 20;

/// What an error asks for if there are more.
pub(super) const TOO_LONG: &str = "a request of 4 GiB or less";

/// Pages in an object of a block trace: a 2 MiB extent, as the store cuts disks into objects.
pub const EXTENT_PAGES: u64 = 512;

/// One request of a trace, in whole pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it is made, counted from the trace's first request. It is the beginning if the format tells no time.
    pub at: VirtualInstant,
    /// The first page.
    pub page: TracePage,
    /// What follows the object's last page.
    pub space: AddressSpace,
    /// Pages, at least 1.
    pub count: u32,
    /// What it does to the pages.
    pub op: PageOp,
}

impl TraceRequest {
    /// A read of one page of a device, in a trace that tells no times.
    pub(super) fn read_of_device(page: u64) -> TraceRequest {
        TraceRequest {
            at: VirtualInstant::START,
            page: TracePage::of_device(page),
            space: AddressSpace::Device,
            count: 1,
            op: PageOp::Read,
        }
    }
}

/// What the objects of a trace are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSpace {
    /// Extents of 2 MiB of one device. A run of pages goes on in the next extent.
    Device,
    /// Objects of any size, which are independent of each other.
    Objects,
}

/// A page, by its name in the trace.
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

/// What a request or a touch does to its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOp {
    /// It reads them.
    Read,
    /// It writes to them.
    Write,
}

impl PageOp {
    /// Draws what a touch does. `write_share` of all touches are writes.
    pub(crate) fn drawn(write_share: f64, rng: &mut SimRng) -> PageOp {
        match rng.happens(write_share) {
            true => PageOp::Write,
            false => PageOp::Read,
        }
    }
}
