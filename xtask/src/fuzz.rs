//! `cargo xtask fuzz TARGET SECONDS`: libFuzzer, guided by coverage, on the stable compiler.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::checkout::root;
use crate::command::Line;
use crate::machine;

/// Every target of `fuzz/`.
pub(crate) const TARGETS: [&str; 9] = [
    "text", "meta", "binary", "config", "nbd", "ring", "save", "traces", "virtio",
];

/// What makes the compiler count edges and comparisons for libFuzzer. Overflow checks and debug
/// assertions stay on.
const INSTRUMENT: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Copt-level=3 -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

/// Largest input that is tried, in bytes.
const INPUT_MAX: &str = "-max_len=4096";

/// A single input may take this long, in seconds.
const INPUT_SECONDS_MAX: &str = "-timeout=10";

/// Builds a target and runs it on its seeds for so many seconds. What it finds stays in
/// `target/fuzz/found/TARGET`, an input that breaks it in `target/fuzz/broken/`.
pub(crate) fn run(target: &str, seconds: &str) -> ExitCode {
    let Some(triple) = machine::triple() else {
        eprintln!("rustc does not say for which target it builds");
        return ExitCode::FAILURE;
    };
    let folder = root().join("target/fuzz");
    let found = folder.join("found").join(target);
    let broken = folder.join("broken");
    for folder in [&found, &broken] {
        if let Err(error) = fs::create_dir_all(folder) {
            eprintln!("cannot make {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    }
    let built = build(target, &triple, &folder).status();
    if built != ExitCode::SUCCESS {
        return built;
    }
    Line::new(folder.join(&triple).join("release").join(target))
        .args([&found, &root().join("fuzz/seeds").join(target)])
        .args([
            format!("-max_total_time={seconds}"),
            format!("-artifact_prefix={}/{target}-", broken.display()),
        ])
        .args([
            INPUT_MAX,
            INPUT_SECONDS_MAX,
            "-print_final_stats=1",
            "-verbosity=1",
        ])
        .status()
}

/// With `--target`, build scripts and procedural macros are built without instrumentation.
fn build(target: &str, triple: &str, folder: &Path) -> Line {
    Line::new("cargo")
        .args([
            "build",
            "--release",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--bin",
            target,
        ])
        .args(["--target", triple, "--target-dir"])
        .args([folder])
        .env("RUSTFLAGS", INSTRUMENT)
}
