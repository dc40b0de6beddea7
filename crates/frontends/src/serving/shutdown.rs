//! How serving ends.

/// How serving ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// At once.
    Now,
    /// After requests that are under way have finished, but within a few seconds.
    Graceful,
}

/// Called at a client's `shutdown` command. Must not block.
pub type OnShutdown = dyn Fn(StopMode) + Send + Sync;

/// Called when serving failed and cannot go on. It must not block.
pub type OnFailure = dyn Fn() + Send + Sync;
