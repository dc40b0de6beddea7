//! Checks that the pure crates do not touch the world: they read no clock, start no thread, open nothing and draw no
//! random number.

use super::complaint::Complaint;
use super::source::Source;

/// Folders of pure code. Tests are exempt.
const PURE: [&str; 5] = [
    "crates/types/src",
    "crates/store/src",
    "crates/policy/src",
    "crates/lend/src",
    "crates/sim/src",
];

/// Paths into the world, each in two words, and what to do instead.
const BANNED: [(&str, &str, &str); 14] = [
    ("Instant", "now", TIME),
    ("SystemTime", "now", TIME),
    ("time", "SystemTime", TIME),
    ("thread", "sleep", TIME),
    ("thread", "spawn", THREAD),
    ("thread", "Builder", THREAD),
    ("std", "fs", BYTES),
    ("std", "net", BYTES),
    ("std", "env", BYTES),
    ("std", "process", BYTES),
    ("rustix", "fs", BYTES),
    ("rustix", "net", BYTES),
    ("rustix", "time", TIME),
    ("hash_map", "RandomState", LUCK),
];

const TIME: &str = "take the time as an argument";
const THREAD: &str = "let `host` start the thread and call a step of yours";
const BYTES: &str = "take the bytes as an argument and let `host` read and write";
const LUCK: &str = "take a seed as an argument";

/// Finds calls into the world where they are not allowed.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    if !PURE.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let complain = |(first, second, instead): &(&str, &str, &str)| {
        let what = format!("`{first}::{second}` in a crate that knows no world");
        source
            .places_of(first, second)
            .into_iter()
            .map(|line| Complaint::new(&source.path, line, what.clone(), *instead))
            .collect::<Vec<_>>()
    };
    BANNED.iter().flat_map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn complaints(path: &str, text: &str) -> Vec<Complaint> {
        check(&Source::parse(Path::new(path), text.into()).expect("it is Rust"))
    }

    #[test]
    fn a_clock_in_a_pure_crate_is_named_with_its_line() {
        let complaints = complaints(
            "crates/store/src/a.rs",
            "fn a() {\n let t = Instant::now();\n}",
        );
        assert_eq!(complaints.len(), 1);
        assert_eq!(complaints[0].line, 2);
        assert_eq!(complaints[0].instead, TIME);
    }

    #[test]
    fn tests_and_other_crates_may_ask_the_world() {
        let gated = "#[cfg(test)]\nmod tests { fn a() { std::thread::spawn(b); } }";
        assert!(complaints("crates/store/src/a.rs", gated).is_empty());
        assert!(complaints("crates/store/tests/a.rs", "fn a() { Instant::now(); }").is_empty());
        assert!(complaints("crates/host/src/a.rs", "fn a() { Instant::now(); }").is_empty());
    }
}
