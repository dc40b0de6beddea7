//! What running a request led to, and what the loop does next. Commands say it, and the session acts on it.

use std::sync::Arc;

use sublet_types::{Expiry, TenantId};

use super::operate::listing::Listing;
use super::watch::Feed;

/// Replies beyond this are written out before the next request is run.
pub const REPLY_HIGH_WATER: usize = 256 << 10;

/// What the loop does after the replies so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write the replies and wait for input. At least `wanted` bytes more than what is left unconsumed are known to be coming (a hint, 1 or more).
    Read {
        /// Bytes that are known to be coming.
        wanted: usize,
    },
    /// The replies are over [`REPLY_HIGH_WATER`]: write them, then call again, even without new input.
    Write,
    /// `requests_per_turn` requests were run and more input is there: let others run, then call again.
    Yield,
    /// From here on the connection acts for this tenant: call again with its tenancy.
    Become(TenantId),
    /// The connection watches: call again, also without input, every `WATCH_INTERVAL`; the replies are the lines that came up.
    Watch,
    /// Write the replies, then close.
    Close,
    /// Write the replies, close, and end the process.
    Shutdown {
        /// Whether connections may finish first.
        graceful: bool,
    },
}

/// Whether the client has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    Shut,
}

/// What follows a request's head.
#[derive(Clone, Copy, Debug)]
pub(super) enum After<'a> {
    /// This much of the input so far.
    Input(&'a [u8]),
    /// A value for which there is no memory.
    NoMemory,
}

/// A get, but for its keys: it goes on where it was interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingGet {
    pub(super) shows: Shows,
    /// The end that each item gets, if it gets one.
    pub(super) touch: Option<Expiry>,
}

impl PendingGet {
    /// get.
    pub(super) const VALUES: PendingGet = PendingGet {
        shows: Shows::Value,
        touch: None,
    };

    /// gets.
    pub(super) const VALUES_AND_CAS: PendingGet = PendingGet {
        shows: Shows::ValueAndCas,
        touch: None,
    };
}

/// What the reply to a get shows of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    Value,
    ValueAndCas,
}

/// What running a request led to.
pub(super) enum Ran {
    /// It is done, with this many bytes behind its head.
    Done { after: usize },
    /// It needs this many bytes behind its head.
    Awaits { body: usize },
    /// It is done; this many bytes behind its head are to be discarded.
    Swallow { body: usize },
    /// It is done up to this byte of its head; the rest is keys still to be answered.
    Get(PendingGet, usize),
    /// It goes on as a listing, with this many bytes behind its head.
    List { after: usize, listing: Box<Listing> },
    /// It is done, and the client watches.
    Watch(Arc<Feed>),
    /// It is done, with this many bytes behind its head, and the client is who it says.
    Admit {
        after: usize,
        /// As whom it is served, if not as the listener's own tenant.
        tenant: Option<TenantId>,
    },
    /// It is done; this many bytes behind its head are to be discarded, and the client is nobody, whoever it was before.
    Disown { body: usize },
    /// It is done, and this is next.
    Stop(Next),
    /// The client broke the protocol: close.
    Break,
}

impl Ran {
    /// A request without anything behind its head goes on as a listing.
    pub(super) fn list(listing: Listing) -> Ran {
        let listing = Box::new(listing);
        Ran::List { after: 0, listing }
    }
}
