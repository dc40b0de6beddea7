//! Time as the store counts it: whole seconds since the store was made, and nanoseconds where precision matters.

/// A second of the daemon's own clock: monotonic, 0 when the store was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Second(pub u32);

/// A moment of the daemon's own clock: monotonic, nanoseconds since the store was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// When an item expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// It is gone from this second on.
    At(Second),
    /// It does not expire.
    Never,
}

impl Expiry {
    /// Returns whether an item with this expiry is gone at `now`.
    pub fn is_past(self, now: Second) -> bool {
        match self {
            Expiry::At(second) => second <= now,
            Expiry::Never => false,
        }
    }
}
