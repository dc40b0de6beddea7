//! Lets tests wait for a condition within a bound.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// No condition that a test waits for takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until `look` finds what it looks for. If that never comes, the panic tells what it saw instead.
pub(crate) fn wait_for<T, S: Display>(mut look: impl FnMut() -> Result<T, S>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < end, "it never comes, but {seen}"),
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until `is_so` returns true.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(|| match is_so() {
        true => Ok(()),
        false => Err(what),
    });
}
