//! The project's own chores: `cargo xtask ci|tidy|fmt|soak`.

mod ci;
mod command;
mod fuzz;
mod machine;
mod soak;
mod step;
mod summary;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

chores:
  ci [--only STEP]... [--against PATH]
        run every check that must pass before a change lands; `--only clients` runs the steps whose names
        begin so; `--against PATH` puts a memcached binary in Sublet's place for the clients and the
        conformance suite
  ci --list
        name the steps
  tidy  check what clippy cannot: import edges, lengths, banned words and calls, places of unsafe
  fmt   format the workspace
  fuzz TARGET SECONDS
        run one fuzz target
  soak [--only STEP]... [--minutes N]
        the long forms of the checks; logs are in target/soak/, a summary goes to docs/soak.md
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"ci", rest)) => ci::run(rest),
        Some((&"tidy", [])) => tidy::run(&root()),
        Some((&"fmt", [])) => command::Line::new("cargo").args(["fmt", "--all"]).status(),
        Some((&"soak", rest)) => soak::run(rest),
        Some((&"fuzz", [target, seconds])) => fuzz::run(target, seconds),
        Some((&("-h" | "--help"), _)) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => wrong_usage(),
    }
}

/// Says how the chores are called, for a call that none of them knows.
fn wrong_usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// The workspace's folder.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}
