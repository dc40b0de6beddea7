//! `cargo xtask fuzz TARGET SECONDS`: libFuzzer, guided by coverage, on the stable compiler.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::checkout::root;
use crate::command::CommandLine;
use crate::machine;

/// Every target of `fuzz/`.
pub(crate) const TARGETS: [&str; 14] = [
    "text",
    "meta",
    "binary",
    "config",
    "etcd-answers",
    "lend-answers",
    "lend-control",
    "lend-hello",
    "lend-requests",
    "nbd",
    "ring",
    "save",
    "traces",
    "virtio",
];

/// Options that make the compiler count edges and comparisons for libFuzzer.
const INSTRUMENT: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The largest input to try, in bytes.
const INPUT_MAX: &str = "-max_len=4096";

/// The most seconds that a single input may take.
const INPUT_SECONDS_MAX: &str = "-timeout=10";

/// Builds a target and runs it on its seeds for this many seconds. Its findings stay in `target/fuzz/found/TARGET`. An
/// input that breaks it stays in `target/fuzz/broken/`.
pub(crate) fn run(target: &str, seconds: &str) -> ExitCode {
    ready(&["--bin", target], &[target])
        .map_or_else(|code| code, |place| line(&place, target, seconds).status())
}

/// Builds all targets at once, and runs each on its seeds for this many seconds, one per core at a time. The output of
/// each is shown when it has ended.
pub(crate) fn run_all(seconds: &str) -> ExitCode {
    let place = match ready(&["--bins"], &TARGETS) {
        Ok(place) => place,
        Err(code) => return code,
    };
    let left = Mutex::new(TARGETS.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || std::iter::from_fn(next).all(|target| run_apart(&place, target, seconds));
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let all_well = thread::scope(|scope| {
        let runs: Vec<_> = (0..cores).map(|_| scope.spawn(run)).collect();
        runs.into_iter().all(|run| run.join().unwrap_or(false))
    });
    match all_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs a target with a separate log, and shows the log. Returns whether it found nothing.
fn run_apart(place: &FuzzBuild, target: &str, seconds: &str) -> bool {
    let log = place.folder.join(format!("{target}.log"));
    let well = line(place, target, seconds).status_apart(&log);
    let output = fs::read_to_string(&log).unwrap_or_default();
    println!("\n---- {target}\n{output}");
    well
}

/// Where the targets are built.
struct FuzzBuild {
    folder: PathBuf,
    triple: String,
}

/// Builds what `bins` chooses, and makes the folders for `targets`.
fn ready(bins: &[&str], targets: &[&str]) -> Result<FuzzBuild, ExitCode> {
    let Some(triple) = machine::triple() else {
        eprintln!("rustc does not say for which target it builds");
        return Err(ExitCode::FAILURE);
    };
    let folder = root().join("target/fuzz");
    let found = targets
        .iter()
        .map(|target| folder.join("found").join(target));
    for folder in found.chain([folder.join("broken")]) {
        if let Err(error) = fs::create_dir_all(&folder) {
            eprintln!("cannot make {}: {error}", folder.display());
            return Err(ExitCode::FAILURE);
        }
    }
    let built = build(bins, &triple, &folder).status();
    match built == ExitCode::SUCCESS {
        true => Ok(FuzzBuild { folder, triple }),
        false => Err(built),
    }
}

fn line(place: &FuzzBuild, target: &str, seconds: &str) -> CommandLine {
    let FuzzBuild { folder, triple } = place;
    let broken = folder.join("broken");
    CommandLine::new(folder.join(triple).join("release").join(target))
        .args([
            &folder.join("found").join(target),
            &root().join("fuzz/seeds").join(target),
        ])
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
}

/// The command that builds. With `--target`, build scripts and procedural macros are built without instrumentation.
fn build(bins: &[&str], triple: &str, folder: &Path) -> CommandLine {
    CommandLine::new("cargo")
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(bins.iter().copied())
        .args(["--target", triple, "--target-dir"])
        .args([folder])
        .env("RUSTFLAGS", INSTRUMENT)
}
