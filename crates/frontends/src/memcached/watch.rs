//! `watch`: lines about what others do, for those who asked.

use std::time::Duration;

/// How often a watching connection is given the lines that came up.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(50);
