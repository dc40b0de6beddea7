//! The end of serving.

/// How serving ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At once.
    Now,
    /// After what is under way, but within a few seconds.
    Graceful,
}

/// Hears a client's `shutdown`. Must not block.
pub type Asked = dyn Fn(Stop) + Send + Sync;
