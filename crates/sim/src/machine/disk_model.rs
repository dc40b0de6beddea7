//! A disk: it serves one request after another, each with a latency and a transfer.

use serde::Deserialize;
use sublet_types::{Bytes, PAGE_BYTES};

use crate::bounds;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// How fast a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskSpeed {
    /// Microseconds until the first byte of a request that does not continue the previous one.
    pub latency_us: u64,
    /// Bytes per second.
    #[serde(deserialize_with = "bounds::some")]
    pub bandwidth: Bytes,
    /// How many requests it works on at once.
    #[serde(deserialize_with = "bounds::some")]
    pub channels: u16,
    /// Bytes of writes that may wait before the writer has to wait too.
    pub backlog: Bytes,
}

/// A SATA disk with platters, like the one of SmarTmem's host (320 GB, laptop class): 8 ms for a seek and half a turn,
/// 100 MiB/s.
impl Default for DiskSpeed {
    fn default() -> DiskSpeed {
        DiskSpeed {
            latency_us: 8_000,
            bandwidth: Bytes::mib(100),
            channels: 1,
            backlog: Bytes::mib(4),
        }
    }
}

/// An address on a disk. Pages of one region lie one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskAddress {
    /// A file, or a guest's swap space.
    pub region: u64,
    /// The page in the region.
    pub page: u64,
}

impl DiskAddress {
    /// The address `pages` pages farther on.
    pub fn plus(self, pages: u64) -> DiskAddress {
        DiskAddress {
            page: self.page.saturating_add(pages),
            ..self
        }
    }
}

/// A disk in virtual time.
#[derive(Clone, Debug)]
pub struct DiskModel {
    speed: DiskSpeed,
    /// When each channel is idle again, and where its next request would continue.
    channels: Vec<(VirtualInstant, DiskAddress)>,
    /// What it did.
    pub counts: DiskCounts,
}

/// What a disk did since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DiskCounts {
    /// Read requests.
    pub reads: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Write requests.
    pub writes: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Requests that did not continue where the one before ended.
    pub seeks: u64,
}

const NOWHERE: DiskAddress = DiskAddress {
    region: u64::MAX,
    page: 0,
};

impl DiskModel {
    /// An idle disk.
    pub fn of(speed: DiskSpeed) -> DiskModel {
        DiskModel {
            speed,
            channels: vec![(VirtualInstant::START, NOWHERE); usize::from(speed.channels.max(1))],
            counts: DiskCounts::default(),
        }
    }

    /// Reads `pages` pages from `address` on. Returns when they are there.
    pub fn read(
        &mut self,
        now: VirtualInstant,
        address: DiskAddress,
        pages: u64,
    ) -> VirtualInstant {
        self.counts.reads += 1;
        self.counts.pages_read += pages;
        self.transfer(now, address, pages)
    }

    /// Writes `pages` pages at `address`. Returns until when the writer waits: it is `now` unless writes pile up.
    pub fn write(
        &mut self,
        now: VirtualInstant,
        address: DiskAddress,
        pages: u64,
    ) -> VirtualInstant {
        self.counts.writes += 1;
        self.counts.pages_written += pages;
        let done = self.transfer(now, address, pages);
        let patience = self.transfer_time(self.speed.backlog.0 / PAGE_BYTES);
        now.max(VirtualInstant(done.0.saturating_sub(patience.0)))
    }

    fn transfer(
        &mut self,
        now: VirtualInstant,
        address: DiskAddress,
        pages: u64,
    ) -> VirtualInstant {
        let channel = self.channel_for(address);
        let (idle_at, next) = self.channels[channel];
        let latency = match next == address {
            true => VirtualDuration::default(),
            false => {
                self.counts.seeks += 1;
                VirtualDuration::micros(self.speed.latency_us)
            }
        };
        let done = now.max(idle_at) + latency + self.transfer_time(pages);
        self.channels[channel] = (done, address.plus(pages));
        done
    }

    /// The channel that would continue at this address, else the one that is idle first.
    fn channel_for(&self, address: DiskAddress) -> usize {
        let continues = self.channels.iter().position(|(_, next)| *next == address);
        let idle_first = || {
            let idle_at = |n: &usize| self.channels[*n].0;
            (0..self.channels.len()).min_by_key(idle_at).unwrap_or(0)
        };
        continues.unwrap_or_else(idle_first)
    }

    fn transfer_time(&self, pages: u64) -> VirtualDuration {
        let bytes = u128::from(pages) * u128::from(PAGE_BYTES);
        let nanos = bytes * 1_000_000_000 / u128::from(self.speed.bandwidth.0.max(1));
        VirtualDuration(nanos.min(u128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(channels: u16) -> DiskModel {
        DiskModel::of(DiskSpeed {
            latency_us: 1_000,
            bandwidth: Bytes(4096 * 1_000_000),
            channels,
            backlog: Bytes(4096 * 10),
        })
    }

    fn at(page: u64) -> DiskAddress {
        DiskAddress { region: 0, page }
    }

    #[test]
    fn requests_queue_and_those_that_continue_need_no_seek() {
        let mut disk = disk(1);
        assert_eq!(
            disk.read(VirtualInstant(0), at(0), 8),
            VirtualInstant(1_008_000)
        );
        assert_eq!(
            disk.read(VirtualInstant(0), at(8), 8),
            VirtualInstant(1_016_000)
        );
        assert_eq!(
            disk.read(VirtualInstant(0), at(99), 1),
            VirtualInstant(2_017_000)
        );
        assert_eq!(
            disk.read(VirtualInstant(9_000_000), at(5), 1),
            VirtualInstant(10_001_000)
        );
        assert_eq!((disk.counts.reads, disk.counts.pages_read), (4, 18));
    }

    #[test]
    fn channels_work_side_by_side() {
        let mut disk = disk(2);
        assert_eq!(
            disk.read(VirtualInstant(0), at(0), 1),
            VirtualInstant(1_001_000)
        );
        assert_eq!(
            disk.read(VirtualInstant(0), at(50), 1),
            VirtualInstant(1_001_000)
        );
        assert_eq!(
            disk.read(VirtualInstant(0), at(90), 1),
            VirtualInstant(2_002_000)
        );
    }

    #[test]
    fn a_writer_waits_only_where_writes_pile_up() {
        let mut disk = disk(1);
        assert_eq!(
            disk.write(VirtualInstant(0), at(0), 1),
            VirtualInstant(991_000)
        );
        let mut idle = DiskModel::of(DiskSpeed {
            backlog: Bytes::gib(1),
            ..disk.speed
        });
        assert_eq!(idle.write(VirtualInstant(5), at(0), 1), VirtualInstant(5));
    }
}
