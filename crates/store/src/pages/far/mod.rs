//! Far memory: pages of tenants in blocks that lenders have lent.
//!
//! ```text
//!  block  ready ──take──► filling ──► full ──drop──► dropped ──sweep──► ready again, given back, or gone
//!  frame  free ──evict──► outbound ──settled──► away ──get, flush, put──► free
//!                             └─get, flush, put──► cancelled ──settled──► free
//! ```
//!
//! A page that is evicted here goes to the outbox if its tenant has a free far frame. Free frames of blocks that the
//! tenant has are used first. When all are used, the tenant's oldest block goes. Whoever carries pages takes them from
//! the outbox and reports what became of each. Until then gets are served from the outbox.

mod away;
mod blocks;
#[cfg(test)]
mod counted;
mod idle;
mod leases;
mod outbox;
mod sweep;
mod tenant_far;
mod transfer;
mod unused;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use sublet_types::Bytes;

use crate::borrowing::{LEASES_MAX, LeaseSlot};
use crate::settings::PageSettings;
use blocks::FarBlocks;
use outbox::Outbox;
pub(super) use tenant_far::TenantFar;

/// The far memory of this host.
pub(super) struct FarMemory {
    blocks: FarBlocks,
    /// Made with the first lease.
    outbox: OnceLock<Outbox>,
    /// Pages of each lease that were taken out of the outbox to be sent, since it was opened.
    sent: Box<[AtomicU64]>,
    outbox_pages: u16,
    page_bytes: usize,
}

impl FarMemory {
    /// Far memory without a lease, with frames per block of this binary logarithm.
    pub(super) fn new(settings: &PageSettings, block_bits: u32) -> FarMemory {
        FarMemory {
            blocks: FarBlocks::new(settings.far_blocks, block_bits),
            outbox: OnceLock::new(),
            sent: (0..LEASES_MAX).map(|_| AtomicU64::new(0)).collect(),
            outbox_pages: settings.outbox_pages,
            page_bytes: settings.page_bytes,
        }
    }

    /// Returns whether a lender has lent anything.
    #[inline]
    pub(super) fn has_blocks(&self) -> bool {
        self.blocks.are_there()
    }

    /// The far memory of a tenant that has none yet.
    pub(super) fn of_tenant(&self) -> TenantFar {
        TenantFar::new(&self.blocks)
    }

    /// The pages that were sent of a lease that has, or had, blocks.
    fn sent(&self, lease: LeaseSlot) -> &AtomicU64 {
        &self.sent[usize::from(lease.0)]
    }

    /// What the pages of the outbox take here. Nothing before the first lease.
    fn outbox_bytes(&self) -> Bytes {
        let bytes = u64::from(self.outbox_pages) * self.page_bytes as u64;
        self.outbox.get().map_or(Bytes(0), |_| Bytes(bytes))
    }

    fn outbox(&self) -> &Outbox {
        let new = || Outbox::new(self.outbox_pages, self.page_bytes);
        self.outbox.get_or_init(new)
    }
}
