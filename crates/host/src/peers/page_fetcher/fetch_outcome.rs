//! What became of a page that was to be fetched.

/// What became of a page that was to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchOutcome<'p> {
    /// The page's bytes. Its seal was opened.
    Page(&'p [u8]),
    /// The lender did not give the page in time. The get ends with [`Worker::gone`](sublet_store::Worker::gone).
    Gone(GoneCause),
    /// The lender was not asked: it is too slow now, as many requests wait for its answers as may, it lets no further
    /// connection in, or it cannot be reached. The page may still be there: whoever has a backing reads that.
    NotAsked,
}

/// Why a page did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GoneCause {
    /// The lender does not have the page.
    Absent,
    /// The lender's answer did not come within the guard's time limit.
    Late,
    /// The lender's bytes are not those that were sealed.
    Forged,
    /// The lender's bytes are not those that were sealed. They may be those of a later page of the place, because the
    /// read was overtaken, or those of a write that was lost, which came late.
    Overwritten,
    /// The lender says that the block was never lent to this host.
    Refused,
    /// The lender has no time.
    Busy,
    /// The lease has ended.
    LeaseEnded,
    /// The connection to the lender ended.
    Unreachable,
    /// The lender broke the protocol.
    BrokenProtocol,
}

impl GoneCause {
    /// Every cause, in the order of the enum.
    pub const ALL: [GoneCause; 9] = [
        GoneCause::Absent,
        GoneCause::Late,
        GoneCause::Forged,
        GoneCause::Overwritten,
        GoneCause::Refused,
        GoneCause::Busy,
        GoneCause::LeaseEnded,
        GoneCause::Unreachable,
        GoneCause::BrokenProtocol,
    ];

    /// Its name in the status and the metrics.
    pub fn label(self) -> &'static str {
        match self {
            GoneCause::Absent => "absent",
            GoneCause::Late => "late",
            GoneCause::Forged => "forged",
            GoneCause::Overwritten => "overwritten",
            GoneCause::Refused => "refused",
            GoneCause::Busy => "busy",
            GoneCause::LeaseEnded => "lease-ended",
            GoneCause::Unreachable => "unreachable",
            GoneCause::BrokenProtocol => "broken-protocol",
        }
    }
}
