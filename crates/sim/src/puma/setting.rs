//! Where an experiment takes place: the network, the disk, and what an operation costs the guest.

use std::num::NonZeroU32;
use std::str::FromStr;

use serde::Serialize;
use sublet_types::{Bytes, PAGE_BYTES};

use crate::machine::disk_model::DiskSpeed;
use crate::virtual_time::VirtualDuration;

/// A setting, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingName {
    /// The paper's network and disks.
    Paper,
    /// The paper's disks, and our network and costs.
    Quick,
    /// Our network and costs over an NVMe disk.
    Nvme,
    /// The paper's network. An SSD stands for the disk, as if a cache on it had everything.
    PaperSsd,
}

/// What a setting comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PumaSetting {
    /// The network to the lender.
    pub(super) link: LinkSpeed,
    /// The disk of the guest.
    pub(super) disk: DiskSpeed,
    /// The guest's own time.
    pub(super) costs: PageCosts,
}

/// How fast a lender is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSpeed {
    /// A round trip of a request for nothing, with the lender's work.
    pub(super) round_trip: VirtualDuration,
    /// Bytes per second. Both directions share them.
    pub(super) bandwidth: Bytes,
}

/// The guest's time for a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageCosts {
    /// A read of a page that is in memory.
    pub(super) touch: VirtualDuration,
    /// A put of a page that leaves memory.
    pub(super) put: VirtualDuration,
    /// A get of a page that a lender has, beside the wait for it.
    pub(super) get: VirtualDuration,
}

/// 10 Gb/s.
const TEN_GIGABITS: Bytes = Bytes(1_250_000_000);

/// The paper measured about 150 µs between its virtual machines (section 4.6).
const PAPER_LINK: LinkSpeed = LinkSpeed {
    round_trip: VirtualDuration::micros(150),
    bandwidth: TEN_GIGABITS,
};

/// A read of a few pages over TCP between two daemons takes 25 µs.
const QUICK_LINK: LinkSpeed = LinkSpeed {
    round_trip: VirtualDuration::micros(25),
    bandwidth: TEN_GIGABITS,
};

/// Their RAID0 of five SAS disks, as a guest sees it. The latency is such that the baseline of random reads comes to the
/// 166 reads per second of the paper's table 2. The paper says "hundreds of MB/s" of the bandwidth.
const PAPER_DISK: DiskSpeed = DiskSpeed {
    latency_us: 7_700,
    bandwidth: Bytes::mib(400),
    channels: 1,
    backlog: Bytes::ZERO,
};

const NVME: DiskSpeed = DiskSpeed {
    latency_us: 100,
    bandwidth: Bytes::mib(500),
    channels: 8,
    backlog: Bytes::ZERO,
};

/// The paper measured more than 200 µs from the guest to its SSD (section 4.6).
const SSD: DiskSpeed = DiskSpeed {
    latency_us: 200,
    bandwidth: Bytes::mib(500),
    channels: 8,
    backlog: Bytes::ZERO,
};

/// A page crosses a guest's kernel and a virtual network card in the guest's own time. The paper names no figure.
const PAPER_COSTS: PageCosts = PageCosts {
    touch: VirtualDuration(2_000),
    put: VirtualDuration(9_000),
    get: VirtualDuration(3_000),
};

/// A put with a copy into the outbox, and a get with its seal.
const QUICK_COSTS: PageCosts = PageCosts {
    touch: VirtualDuration(2_000),
    put: VirtualDuration(1_100),
    get: VirtualDuration(1_100),
};

impl SettingName {
    /// The words of tables and plots.
    pub fn words(self) -> &'static str {
        match self {
            SettingName::Paper => "the paper's network and disks",
            SettingName::Quick => "the paper's disks, 25 µs far",
            SettingName::Nvme => "an NVMe disk of 100 µs, 25 µs far",
            SettingName::PaperSsd => "the paper's network and SSD",
        }
    }

    pub(super) fn setting(self) -> PumaSetting {
        let (link, costs) = match self {
            SettingName::Paper | SettingName::PaperSsd => (PAPER_LINK, PAPER_COSTS),
            SettingName::Quick | SettingName::Nvme => (QUICK_LINK, QUICK_COSTS),
        };
        let disk = match self {
            SettingName::Paper | SettingName::Quick => PAPER_DISK,
            SettingName::Nvme => NVME,
            SettingName::PaperSsd => SSD,
        };
        PumaSetting { link, disk, costs }
    }
}

/// How many times smaller than the paper's all memory and data are. Times are not scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PumaScale(NonZeroU32);

/// The scale must be one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the scale must be 1, 2, 4, 8, 16, 32 or 64: half a gigabyte of far memory needs some blocks"
)]
pub struct PumaScaleError;

/// The largest scale: half a gigabyte is four blocks of 512 pages then.
const SCALE_MAX: u32 = 64;

/// Half a gigabyte is eight blocks.
impl Default for PumaScale {
    fn default() -> PumaScale {
        PumaScale(NonZeroU32::MIN.saturating_add(31))
    }
}

impl FromStr for PumaScale {
    type Err = PumaScaleError;

    fn from_str(text: &str) -> Result<PumaScale, PumaScaleError> {
        let number: NonZeroU32 = text.parse().map_err(|_| PumaScaleError)?;
        let is_known = number.is_power_of_two() && number.get() <= SCALE_MAX;
        is_known.then_some(PumaScale(number)).ok_or(PumaScaleError)
    }
}

impl std::fmt::Display for PumaScale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl PumaScale {
    /// How many times smaller all is.
    pub(super) fn factor(self) -> u64 {
        self.0.get().into()
    }

    /// The pages that so many MiB of the paper come to.
    pub(super) fn pages(self, mib: u64) -> u64 {
        mib * (Bytes::mib(1).0 / PAGE_BYTES) / self.factor()
    }
}
