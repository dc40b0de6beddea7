//! Where the frame of a new page comes from: what a put may ask for, and what asking came to.

use crate::api::{Put, PutRefused};
use crate::arena::PageKind;
use crate::frames::FrameId;
use crate::tenants::Tenant;

pub(super) const NO_POOL: Put = Put::Refused(PutRefused::NoPool);

/// What became of an attempt to put.
pub(crate) enum PutAttempt<'a, F> {
    /// It is decided.
    Done(Put),
    /// No frame is free and none may be displaced yet: whoever is charged needs a block.
    NeedsBlock(&'a Tenant, PageKind, F),
    /// There is no frame but in shards that somebody holds, or that may not be asked.
    Elsewhere(F),
}

/// What keeps a page from going on with others of its run.
pub(crate) enum Shortage<'a> {
    /// Whoever is charged needs a block.
    Block(&'a Tenant, PageKind),
    /// It has to ask other shards.
    Frame,
}

/// Whether a put that finds no free frame may displace a page at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Displacing {
    /// Only where nobody else could give way.
    IfBound,
    /// It has been found out that nobody else should.
    Always,
}

/// How a put that finds no free frame in its shard may come by one.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) displacing: Displacing,
    pub(crate) siblings: Siblings,
}

impl From<Displacing> for Terms {
    fn from(displacing: Displacing) -> Terms {
        Terms {
            displacing,
            siblings: Siblings::Asked,
        }
    }
}

/// What a put may ask of the other shards of its tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// Those that nobody holds are asked.
    Asked,
    /// None is: whoever puts may hold some himself.
    LeftAlone,
    /// None has a frame: each was waited for and asked, just now.
    Exhausted,
}

/// A frame that a shard can spare.
pub(super) enum Spare {
    Free(FrameId),
    /// Free since a page of the tenant was evicted ahead, as if it went now.
    FreedAhead(FrameId),
    /// A page of the tenant went for it. Its block counts it as taken still.
    Displaced(FrameId),
}

impl Spare {
    pub(super) fn frame(&self) -> FrameId {
        match self {
            Spare::Free(frame) | Spare::FreedAhead(frame) | Spare::Displaced(frame) => *frame,
        }
    }
}

/// What asking the other shards came to.
pub(super) enum Asked {
    Has(Spare),
    /// Shards that were not asked may have one.
    Perhaps,
    Nobody,
}
