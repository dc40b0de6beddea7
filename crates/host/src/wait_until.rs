//! Lets tests wait for a condition within a bound.

use std::thread;
use std::time::{Duration, Instant};

/// No condition that a test waits for takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `is_so` returns true.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
