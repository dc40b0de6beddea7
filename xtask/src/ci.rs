//! `cargo xtask ci`: what must pass before a change lands.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::checkout::root;
use crate::command::Line;
use crate::step::{Lane, Ran, Step};
use crate::{summary, usage};

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    only: Vec<String>,
    against: Option<PathBuf>,
    list: bool,
}

/// Runs the steps that `words` ask for, all of them by default.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let Some(asked) = asked_for(words) else {
        return usage::wrong();
    };
    let steps = chosen(steps(asked.against.as_deref()), &asked.only);
    if asked.list {
        steps.iter().for_each(|step| println!("{}", step.name));
        return ExitCode::SUCCESS;
    }
    let started = Instant::now();
    let ran = run_all(&steps, &root().join("target/ci"));
    summary::close(&ran, started.elapsed())
}

/// Runs every step, whatever became of those before it; what came of them, in the order of `steps`. Those that wait begin when
/// the program is built, and run beside the rest.
pub(crate) fn run_all(steps: &[Step], logs: &Path) -> Vec<Ran> {
    let place = |lane: Lane| steps.iter().filter(move |step| step.lane == lane);
    let builds = place(Lane::Building).any(|step| step.name == BUILD);
    let (built, is_built) = mpsc::sync_channel(1);
    let mut ran = thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            // The other lane may end without a build.
            if builds {
                let _ = is_built.recv();
            }
            place(Lane::Waiting)
                .map(|step| run_beside(step, logs))
                .collect::<Vec<_>>()
        });
        let mut ran = Vec::new();
        for step in place(Lane::Building) {
            println!("\n==== {}", step.name);
            ran.push(step.run(logs));
            if step.name == BUILD {
                let _ = built.send(());
            }
        }
        drop(built);
        ran.extend(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ran
    });
    ran.sort_by_key(|ran| steps.iter().position(|step| step.name == ran.name));
    ran
}

/// The step that builds what clients and guests are served by.
const BUILD: &str = "build";

fn run_beside(step: &Step, logs: &Path) -> Ran {
    let ran = step.run(logs);
    println!("\n==== beside it: {}", summary::row(&ran));
    ran
}

/// The steps whose names begin with one of `only`; all when it is empty.
pub(crate) fn chosen(steps: Vec<Step>, only: &[String]) -> Vec<Step> {
    let is_chosen = |step: &Step| {
        only.is_empty()
            || only
                .iter()
                .any(|beginning| step.name.starts_with(beginning.as_str()))
    };
    steps.into_iter().filter(is_chosen).collect()
}

fn asked_for(words: &[&str]) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--only" => asked.only.push((*words.next()?).to_owned()),
            "--against" => asked.against = Some(PathBuf::from(words.next()?)),
            "--list" => asked.list = true,
            _ => return None,
        }
    }
    Some(asked)
}

/// Every step, cheap ones first in each lane; but the program is built early, for the lane that waits for it.
fn steps(against: Option<&Path>) -> Vec<Step> {
    let mut steps = vec![
        fmt(),
        tidy(),
        build(),
        ring(),
        packaging(),
        clippy(),
        test(),
        models(),
        doc(),
        pressure(),
        fuzz(),
    ];
    steps.extend(clients(against));
    steps.extend([conformance(against), vm()]);
    steps
}

/// A step that builds.
fn step(name: &'static str, seconds_quiet: u64, lines: Vec<Line>) -> Step {
    Step {
        name,
        needs: &[],
        seconds_quiet,
        lane: Lane::Building,
        lines,
    }
}

/// A step that waits for others' programs.
fn waiting(
    name: &'static str,
    needs: &'static [&'static str],
    seconds_quiet: u64,
    line: Line,
) -> Step {
    Step {
        name,
        needs,
        seconds_quiet,
        lane: Lane::Waiting,
        lines: vec![line],
    }
}

fn cargo<const N: usize>(args: [&str; N]) -> Line {
    Line::new("cargo").args(args)
}

/// A line of cargo that builds by the profile `checked`. All of them ask for the same features, so that no crate is built twice.
fn checked<const N: usize>(args: [&'static str; N]) -> Line {
    cargo(args).args([
        "--profile",
        PROFILE,
        "--locked",
        "--features=sublet-client/async,sublet-client/ffi",
    ])
}

/// Of `Cargo.toml`. Its programs lie in a folder of its name under `target`.
const PROFILE: &str = "checked";

/// A program that the step `build` has built.
fn built(program: &str) -> PathBuf {
    root().join("target").join(PROFILE).join(program)
}

fn fmt() -> Step {
    step("fmt", 10, vec![cargo(["fmt", "--all", "--check"])])
}

fn tidy() -> Step {
    step("tidy", 40, vec![cargo(["xtask", "tidy"])])
}

fn clippy() -> Step {
    let line = checked(["clippy", "--workspace", "--all-targets"]).args(["--", "-D", "warnings"]);
    step("clippy", 150, vec![line])
}

/// The workspace's tests.
fn test() -> Step {
    let tests = |more: &[&'static str]| {
        checked(["test", "--workspace", "--no-fail-fast"])
            .args(more.iter().copied())
            .env("SUBLET_PROFILE", PROFILE)
    };
    // These look at the whole process, or build a library first: one after the other, and only when asked.
    let alone = tests(&[
        "--lib",
        "--",
        "--ignored",
        "--test-threads=1",
        "ring::tests::fair",
        "ring::tests::hostile",
    ]);
    step("test", 400, vec![tests(&[]), alone])
}

/// What is lock-free, in every order in which threads can meet.
fn models() -> Step {
    let line = cargo([
        "test",
        "--package",
        "sublet-store",
        "--lib",
        "--release",
        "--locked",
        "--target-dir",
        "target/loom",
        "orders",
    ]);
    step("models", 150, vec![line.env("RUSTFLAGS", "--cfg loom")])
}

fn doc() -> Step {
    let line = checked([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    step("doc", 120, vec![line.env("RUSTDOCFLAGS", "-D warnings")])
}

/// The programs. Examples ask for what tests depend on, so that features are those of the tests and nothing is built again for them.
fn build() -> Step {
    step(
        BUILD,
        330,
        vec![checked(["build", "--workspace", "--bins", "--examples"])],
    )
}

/// A client suite of another language, told where the program under test is.
fn suite(line: Line, against: Option<&Path>) -> Line {
    match against {
        Some(memcached) => line.env("NODE_FACE", "peer").env("NODE_PROGRAM", memcached),
        None => line
            .env("NODE_PROGRAM", built("sublet"))
            .env("SUBLET_PROFILE", PROFILE),
    }
}

fn clients(against: Option<&Path>) -> Vec<Step> {
    let run = |script: &str| {
        suite(
            Line::new(root().join("tests/clients").join(script)),
            against,
        )
    };
    let step = |name, needs, seconds, script| waiting(name, needs, seconds, run(script));
    vec![
        step(
            "clients-python",
            &["python3", "memccapable", "nc"],
            200,
            "python/run",
        ),
        step("clients-go", &["go"], 150, "go/run"),
        step("clients-java", &["java", "mvn"], 150, "java/run"),
        step("clients-node", &["node", "npm"], 60, "node/run"),
    ]
}

/// Programs in Rust, C and Python on a page ring.
fn ring() -> Step {
    let line = Line::new(root().join("tests/clients/ring/run"));
    let line = line.env("RING_EXAMPLES", built("examples"));
    Step {
        needs: &["cc", "python3", "pkg-config", "readelf", "strip"],
        ..step("clients-ring", 60, vec![suite(line, None)])
    }
}

fn conformance(against: Option<&Path>) -> Step {
    let line = Line::new(root().join("tests/conformance/run"));
    let needs = &["prove", "cc", "make"];
    waiting("conformance", needs, 240, suite(line, against))
}

/// What the package is made of.
fn packaging() -> Step {
    let line = Line::new(root().join("tests/packaging/run"));
    Step {
        needs: &["pkg-config", "readelf", "strip"],
        ..step("packaging", 40, vec![suite(line, None)])
    }
}

/// A program that takes memory beside a small arena: it must come to no harm. Times are not judged here.
fn pressure() -> Step {
    let lab = Line::new(built("sublet-lab"));
    step(
        "pressure",
        200,
        vec![lab.args(["bench", "pressure", "--small"])],
    )
}

/// What it takes to boot guests and to judge their disks.
pub(crate) const VM_NEEDS: &[&str] = &[
    "qemu-system-x86_64",
    "qemu-img",
    "qemu-storage-daemon",
    "busybox",
    "cc",
    "pkg-config",
    "python3",
    "fusermount3",
    "nbdkit",
    "nbdcopy",
    "fio",
];

/// Real guests on disks of ours, and others' tools on the same disks. Guests are emulated and have clocks of their own: beside a build
/// they take three times as long.
fn vm() -> Step {
    Step {
        needs: VM_NEEDS,
        ..step("vm", 280, vec![guests(&built("sublet"))])
    }
}

/// The suite of guests, two tests at once, with the `sublet` binary that serves them.
pub(crate) fn guests(program: &Path) -> Line {
    Line::new(root().join("tests/vm/run"))
        .args(["-n", "2"])
        .env("NODE_PROGRAM", program)
}

/// Seconds that each fuzz target gets: what a change breaks at once. `cargo xtask soak` gives each half an hour.
const FUZZ_SECONDS: &str = "10";

fn fuzz() -> Step {
    Step {
        needs: &["c++"],
        ..step(
            "fuzz",
            300,
            vec![cargo(["xtask", "fuzz", "all", FUZZ_SECONDS])],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Outcome;

    #[test]
    fn words_become_what_is_asked_for() {
        let asked = asked_for(&["--only", "clients", "--against", "/bin/m"]).expect("it parses");
        assert_eq!(asked.only, ["clients"]);
        assert_eq!(asked.against.as_deref(), Some(Path::new("/bin/m")));
        assert_eq!(asked_for(&["--only"]), None);
        assert_eq!(asked_for(&["--faster"]), None);
    }

    #[test]
    fn only_chooses_by_how_names_begin() {
        let names: Vec<_> = chosen(steps(None), &["clients".into(), "fmt".into()])
            .iter()
            .map(|step| step.name)
            .collect();
        assert_eq!(
            names,
            [
                "fmt",
                "clients-ring",
                "clients-python",
                "clients-go",
                "clients-java",
                "clients-node"
            ]
        );
    }

    #[test]
    fn what_waits_runs_beside_the_rest_once_the_program_is_built() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let line = |script: String| Line::new("sh").args(["-c".to_owned(), script]);
        let build = step(BUILD, 1, vec![line(format!("mkdir {path}/built"))]);
        let beside = waiting("beside", &[], 1, line(format!("mkdir {path}/built/beside")));
        let met = format!("until [ -d {path}/built/beside ]; do sleep 0.01; done");
        let steps = [beside, build, step("meets", 1, vec![line(met)])];
        let ran = run_all(&steps, folder.path());
        let names: Vec<_> = ran.iter().map(|ran| ran.name).collect();
        assert_eq!(names, ["beside", BUILD, "meets"]);
        assert!(ran.iter().all(|ran| ran.outcome == Outcome::Passed));
    }

    #[test]
    fn names_of_steps_differ() {
        let steps = steps(None);
        let mut names: Vec<_> = steps.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), steps.len());
    }
}
