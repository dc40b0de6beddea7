//! What the main thread acts on.

use sublet_frontends::memcached::serve::Stop;

/// What the main thread acts on.
pub(super) enum Event {
    /// A signal came.
    Signal(i32),
    /// A client asked for the end, or serving failed.
    Asked(Stop),
    /// The memory limit was changed.
    Shrink,
}
