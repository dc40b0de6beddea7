//! The types with which a caller carries pages to lenders and back.

use sublet_types::TenantId;

/// A far frame's number: its far block's number times the frames per block, plus its index in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FarFrame(pub(crate) u32);

/// The number of a lease at its borrower. It may be used again after the lease has ended and all its blocks are swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseSlot(pub u16);

/// The most leases at a time.
pub const LEASES_MAX: usize = 256;

/// A page-sized place in a block that a lender has lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FarAddress {
    /// The lease of the block.
    pub lease: LeaseSlot,
    /// The block's index in the lease.
    pub index: u32,
    /// The page's place in the block.
    pub place: u16,
}

/// A tag that only somebody with the lease's key can make for a page's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealTag(pub [u8; 16]);

/// What opens a page that a lender has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSeal {
    /// The tag of its bytes.
    pub tag: SealTag,
    /// The number of this write. Each write into a block has a higher one than those before, whatever its place.
    pub sequence: u32,
}

/// The highest number of a write. A block that has seen it is given back.
pub const SEQUENCE_MAX: u32 = u32::MAX;

/// A page that a lender has. It names this version of the page, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwayTicket {
    pub(crate) frame: FarFrame,
    /// Where the page is.
    pub address: FarAddress,
    /// What opens it.
    pub seal: PageSeal,
}

/// A page on its way to a lender. Its bytes stay in the outbox until [`Worker::settle`](crate::Worker::settle).
#[derive(Debug)]
#[must_use = "the page's place in the outbox is free only after `settle`"]
pub struct OutboundPage {
    pub(crate) slot: u16,
    pub(crate) frame: FarFrame,
    pub(crate) tenant: TenantId,
    /// Where the page goes.
    pub address: FarAddress,
    /// The number of this write, for the seal.
    pub sequence: u32,
}

/// The outcome of sending a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The lender has the page, under this tag.
    Taken(SealTag),
    /// The lender did not take it, or it cannot be known. No request for this write is under way any more.
    Lost,
}

/// Whether a tenant's pages may go to lenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borrowing {
    /// They may.
    Allowed,
    /// They stay here, or leave.
    Forbidden,
}

impl Borrowing {
    /// Returns whether the tenant's pages may go to lenders.
    pub fn is_allowed(self) -> bool {
        self == Borrowing::Allowed
    }
}

impl From<bool> for Borrowing {
    fn from(is_allowed: bool) -> Borrowing {
        match is_allowed {
            true => Borrowing::Allowed,
            false => Borrowing::Forbidden,
        }
    }
}

/// What the store knows of one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseFigures {
    /// Blocks that the lease has.
    pub blocks: u32,
    /// Those of them that no tenant uses.
    pub ready: u32,
    /// Pages in the outbox for this lease.
    pub outbound: u32,
    /// Pages taken out of the outbox to be sent, since the lease was opened.
    pub sent: u64,
}

/// Why blocks of a lease could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenLeaseError {
    /// There is no such number.
    #[error("a lease has a number below {LEASES_MAX}")]
    NoSuchSlot,
    /// The lease that had the number before still has blocks.
    #[error("the lease that had this number before still has blocks that are not swept")]
    InUse,
    /// The store was made for fewer blocks of lenders.
    #[error("the store has room for no more blocks of lenders")]
    Full,
}
