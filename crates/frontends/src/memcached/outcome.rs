//! The outcomes of requests, and the next action of the worker loop. Commands return an outcome, and the session acts
//! on it.

use std::sync::Arc;

use sublet_types::{Expiry, TenantId};

use super::operate::listing::Listing;
use super::watch::Watcher;
use crate::serving::StopMode;

/// The session runs no further request before the loop has written the replies if they exceed this many bytes.
pub const REPLY_HIGH_WATER: usize = 256 << 10;

/// What the worker loop does after the replies so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopAction {
    /// Write the replies and wait for input. At least `wanted` bytes are coming, beyond the input that is left
    /// unconsumed. The number is a hint of 1 or more.
    Read {
        /// Bytes that are known to be coming.
        wanted: usize,
    },
    /// The replies exceed [`REPLY_HIGH_WATER`]. Write them, then call again, even without new input.
    Write,
    /// `requests_per_turn` requests were run, and more input is there. Let other connections run, then call again.
    Yield,
    /// The connection acts for this tenant from now on. Call again with the tenant's tenancy.
    SwitchTenant(TenantId),
    /// The connection watches. Call again every `WATCH_INTERVAL`, also without input. The replies are the new lines.
    Watch,
    /// Write the replies, then close.
    Close,
    /// Write the replies, close, and end the process.
    Shutdown(StopMode),
}

/// Whether the client has authenticated, if it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthGate {
    Open,
    Shut,
}

/// The bytes that follow a request's head.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestBody<'a> {
    /// This much of the input so far.
    Input(&'a [u8]),
    /// A value for which no memory is left.
    NoMemory,
}

/// A get without its keys, which continues where it was interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingGet {
    pub(super) fields: GetFields,
    /// The new expiry of each item; `None` if it stays.
    pub(super) touch: Option<Expiry>,
}

impl PendingGet {
    /// The command get.
    pub(super) const VALUES: PendingGet = PendingGet {
        fields: GetFields::Value,
        touch: None,
    };

    /// The command gets.
    pub(super) const VALUES_AND_CAS: PendingGet = PendingGet {
        fields: GetFields::ValueAndCas,
        touch: None,
    };
}

/// The fields of an item that the reply to a get shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GetFields {
    Value,
    ValueAndCas,
}

/// The outcome of a request.
pub(super) enum RequestOutcome {
    /// The request is done. This many bytes belong to it behind its head.
    Done { body: usize },
    /// The request needs this many bytes behind its head.
    Awaits { body: usize },
    /// The request is done. This many bytes behind its head must be discarded.
    Swallow { body: usize },
    /// The request is done up to this byte of its head. The rest is keys that have no reply yet.
    Get(PendingGet, usize),
    /// The request continues as a listing. This many bytes belong to it behind its head.
    List { body: usize, listing: Box<Listing> },
    /// The request is done, and the client watches.
    Watch(Arc<Watcher>),
    /// The request is done, and the client has authenticated. This many bytes belong to it behind its head.
    Authenticated {
        body: usize,
        /// The tenant for which the client acts; the listener's own if `None`.
        tenant: Option<TenantId>,
    },
    /// The request is done. This many bytes behind its head must be discarded. The client counts as unknown from now
    /// on, whoever it was before.
    Deauthenticated { body: usize },
    /// The request is done, and the loop does this next.
    Stop(LoopAction),
    /// The client broke the protocol, so its connection must close.
    ProtocolError,
}

impl RequestOutcome {
    /// Makes the outcome of a request that continues as a listing and has nothing behind its head.
    pub(super) fn list(listing: Listing) -> RequestOutcome {
        let listing = Box::new(listing);
        RequestOutcome::List { body: 0, listing }
    }
}
