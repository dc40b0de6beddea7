//! When to poll and when to sleep.
