//! What can be done with items, and what comes of it: the words that all protocols share.

/// What a store asks of the item that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing.
    Set,
    /// That there is none.
    Add,
    /// That there is one.
    Replace,
    /// That there is one; the value goes behind its value.
    Append,
    /// That there is one; the value goes before its value.
    Prepend,
    /// That there is one with the cas unique that the client saw.
    Cas,
}

/// What becomes of a store whose cas unique is older than the item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// It fails.
    Fails,
    /// It stores a stale item.
    StoresStale,
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Stored: its cas unique, if that is told, and the length of the value.
    Done { cas: u64, size: usize },
    /// What its mode asks was not met.
    Unmet,
    /// The cas unique was out of date.
    Exists,
    /// There was nothing to compare the cas unique with.
    NotFound,
    /// Too large an item.
    TooLarge,
    /// No memory.
    NoMemory,
}

/// Which way a number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// What became of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    Done,
    NotFound,
    Exists,
}
