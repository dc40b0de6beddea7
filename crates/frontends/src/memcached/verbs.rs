//! The operations on items and their outcomes, in the terms that all protocols share.

/// What a store requires of the item that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreMode {
    /// It requires nothing.
    Set,
    /// No item is there.
    Add,
    /// An item is there.
    Replace,
    /// An item is there; the new value is appended to its value.
    Append,
    /// An item is there; the new value is prepended to its value.
    Prepend,
    /// An item is there, with the cas unique that the client saw.
    Cas,
}

/// What a store does if its cas unique is older than the item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OlderCas {
    /// It fails.
    Fails,
    /// It stores a stale item.
    StoresStale,
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    /// The item was stored, with this cas unique and this length of the value.
    Done { cas: u64, size: usize },
    /// The condition of the mode was not met.
    ConditionUnmet,
    /// The client's cas unique was out of date.
    Exists,
    /// No item was there whose cas unique could be compared.
    NotFound,
    /// The item was too large.
    TooLarge,
    /// No memory was left.
    NoMemory,
}

/// Whether a number grows or shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The outcome of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeleteOutcome {
    Done,
    NotFound,
    Exists,
}
