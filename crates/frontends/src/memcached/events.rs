//! What is told of requests: to those who watch, and to the table of prefixes.

use super::verbs::{Deleted, Mode, Stored};

/// What happened.
pub(super) enum Event<'a> {
    /// A key was asked for.
    Fetched {
        key: &'a [u8],
        status: FetchStatus,
        size: usize,
    },
    /// A store looked for the item that it replaces.
    Sought {
        key: &'a [u8],
        /// Bytes of its value, if there is one.
        size: Option<usize>,
    },
    /// A value was given.
    Stored {
        key: &'a [u8],
        status: StoreStatus,
        mode: Mode,
        ttl: i64,
        size: usize,
    },
    /// A request that is no store wrote an item all the same: a count that begins, a delete of the value alone.
    Written {
        key: &'a [u8],
        mode: Mode,
        ttl: i64,
        size: usize,
    },
    /// A delete was asked for.
    Deleted {
        key: &'a [u8],
        deleted: Deleted,
        size: usize,
        command: Command,
    },
    /// A connection came.
    Connected,
    /// A connection ended.
    Closed(Ending),
}

/// What a fetch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchStatus {
    Found,
    NotFound,
    Flushed,
    Expired,
}

impl FetchStatus {
    /// Its name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        match self {
            FetchStatus::Found => "found",
            FetchStatus::NotFound => "not_found",
            FetchStatus::Flushed => "flushed",
            FetchStatus::Expired => "expired",
        }
    }
}

/// What became of a store, as the log lines of `watch` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreStatus(&'static str);

impl StoreStatus {
    pub(super) const STORED: StoreStatus = StoreStatus("stored");

    pub(super) fn of(stored: Stored) -> StoreStatus {
        StoreStatus(match stored {
            Stored::Done { .. } => return StoreStatus::STORED,
            Stored::Unmet => "not_stored",
            Stored::Exists => "exists",
            Stored::NotFound => "not_found",
            Stored::TooLarge => "too_large",
            Stored::NoMemory => "no_memory",
        })
    }

    /// Whether there is an item now that has a class.
    pub(super) fn class(self) -> u8 {
        u8::from(!matches!(self.0, "too_large" | "no_memory"))
    }

    /// Its name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        self.0
    }
}

/// The command that deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Delete,
    MetaDelete,
}

impl Command {
    /// Its name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Command::Delete => "delete",
            Command::MetaDelete => "md",
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Either side was done.
    Normal,
    /// The client broke the protocol.
    Error,
    /// The client was idle for too long.
    Idle,
}

impl Ending {
    /// Its name in the log lines of `watch`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Ending::Normal => "normal",
            Ending::Error => "error",
            Ending::Idle => "idle_timeout",
        }
    }
}
