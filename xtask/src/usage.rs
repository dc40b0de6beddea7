//! The usage text of the tasks.

use std::process::ExitCode;

/// The output of `--help`.
pub(crate) const TEXT: &str = "\
usage: cargo xtask TASK

tasks:
  ci [--only STEP]... [--against PATH]
        run every check that must pass before a change lands; `--only clients` runs the steps whose names
        begin with clients; `--against PATH` puts a memcached binary in Sublet's place for the clients and
        the conformance suite
  ci --list
        list the names of the steps
  tidy [--circles]
        check what clippy cannot: import edges, import cycles, lengths, prose, names, banned words and calls,
        places of unsafe; `--circles` prints every import cycle instead, including pairs and allowed ones
  fmt   format the workspace
  fuzz TARGET SECONDS
        run one fuzz target; `fuzz all SECONDS` runs each target that long, one per core at a time
  soak [--only STEP]... [--minutes N]
        run the long forms of the checks; logs go to target/soak/, a summary to docs/soak.md
";

/// Prints the usage, for a call that no task knows.
pub(crate) fn wrong() -> ExitCode {
    eprint!("{TEXT}");
    ExitCode::from(2)
}
