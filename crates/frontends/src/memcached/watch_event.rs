//! The events of requests, which go to the watching connections and to the table of prefixes.

use super::verbs::{DeleteOutcome, StoreMode, StoreOutcome};

/// An event.
pub(super) enum WatchEvent<'a> {
    /// A client requested a key.
    Fetched {
        key: &'a [u8],
        status: FetchStatus,
        size: usize,
    },
    /// A store looked up the item that it replaces.
    StoreLookup {
        key: &'a [u8],
        /// The length of its value in bytes, if there is an item.
        size: Option<usize>,
    },
    /// A client sent a value to store.
    Stored {
        key: &'a [u8],
        status: StoreStatus,
        mode: StoreMode,
        ttl: i64,
        size: usize,
    },
    /// A request that is no store wrote an item. Such a request is a count that creates its item, or a delete of the
    /// value alone.
    Written {
        key: &'a [u8],
        mode: StoreMode,
        ttl: i64,
        size: usize,
    },
    /// A client requested a delete.
    Deleted {
        key: &'a [u8],
        deleted: DeleteOutcome,
        size: usize,
        command: DeleteCommand,
    },
    /// A client connected.
    Connected,
    /// A connection closed.
    Closed(DisconnectReason),
}

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchStatus {
    Found,
    NotFound,
    Flushed,
    Expired,
}

impl FetchStatus {
    /// Returns the name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        match self {
            FetchStatus::Found => "found",
            FetchStatus::NotFound => "not_found",
            FetchStatus::Flushed => "flushed",
            FetchStatus::Expired => "expired",
        }
    }
}

/// The outcome of a store, as the log lines of `watch` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreStatus(&'static str);

impl StoreStatus {
    pub(super) const STORED: StoreStatus = StoreStatus("stored");

    pub(super) fn of(stored: StoreOutcome) -> StoreStatus {
        StoreStatus(match stored {
            StoreOutcome::Done { .. } => return StoreStatus::STORED,
            StoreOutcome::ConditionUnmet => "not_stored",
            StoreOutcome::Exists => "exists",
            StoreOutcome::NotFound => "not_found",
            StoreOutcome::TooLarge => "too_large",
            StoreOutcome::NoMemory => "no_memory",
        })
    }

    /// Returns the class in the log lines of `watch`: 0 if the item was too large or got no memory, otherwise 1.
    pub(super) fn class(self) -> u8 {
        u8::from(!matches!(self.0, "too_large" | "no_memory"))
    }

    /// Returns the name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        self.0
    }
}

/// The command that deleted an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeleteCommand {
    Delete,
    MetaDelete,
}

impl DeleteCommand {
    /// Returns the name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        match self {
            DeleteCommand::Delete => "delete",
            DeleteCommand::MetaDelete => "md",
        }
    }
}

/// Why a connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// The client or the daemon was done.
    Normal,
    /// The client broke the protocol.
    Error,
    /// The client was idle for too long.
    Idle,
}

impl DisconnectReason {
    /// Returns the name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        match self {
            DisconnectReason::Normal => "normal",
            DisconnectReason::Error => "error",
            DisconnectReason::Idle => "idle_timeout",
        }
    }
}
