//! The events of the main thread.

use sublet_frontends::memcached::serve::StopMode;

/// An event that the main thread acts on.
pub(super) enum MainEvent {
    /// A signal came.
    Signal(i32),
    /// A client asked the process to end, or serving failed.
    StopRequested(StopMode),
    /// The memory limit was changed.
    Shrink,
}
