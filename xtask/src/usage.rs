//! How the chores are called.

use std::process::ExitCode;

/// What `--help` says.
pub(crate) const TEXT: &str = "\
usage: cargo xtask CHORE

chores:
  ci [--only STEP]... [--against PATH]
        run every check that must pass before a change lands; `--only clients` runs the steps whose names
        begin so; `--against PATH` puts a memcached binary in Sublet's place for the clients and the
        conformance suite
  ci --list
        name the steps
  tidy [--circles]
        check what clippy cannot: import edges, circles of files, lengths, banned words and calls, places of
        unsafe; `--circles` shows every circle instead, also pairs and those that may stand
  fmt   format the workspace
  fuzz TARGET SECONDS
        run one fuzz target; `fuzz all SECONDS` runs each of them so long, one a core at a time
  soak [--only STEP]... [--minutes N]
        the long forms of the checks; logs are in target/soak/, a summary goes to docs/soak.md
";

/// Says how the chores are called, for a call that none of them knows.
pub(crate) fn wrong() -> ExitCode {
    eprint!("{TEXT}");
    ExitCode::from(2)
}
