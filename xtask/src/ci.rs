//! `cargo xtask ci`: the checks that must pass before a change lands.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::checkout::root;
use crate::command::CommandLine;
use crate::step::{CheckStep, StepLane, StepReport};
use crate::{summary, usage};

/// The arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct CiArgs {
    only: Vec<String>,
    against: Option<PathBuf>,
    list: bool,
}

/// Runs the steps that `words` ask for, by default all of them.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let Some(args) = parse_args(words) else {
        return usage::wrong();
    };
    let steps = chosen(steps(args.against.as_deref()), &args.only);
    if args.list {
        steps.iter().for_each(|step| println!("{}", step.name));
        return ExitCode::SUCCESS;
    }
    let started = Instant::now();
    let ran = run_all(&steps, &root().join("target/ci"));
    summary::close(&ran, started.elapsed())
}

/// Runs every step, even if others fail. Returns their reports in the order of `steps`. The waiting steps begin when
/// the program is built, and run beside the rest.
pub(crate) fn run_all(steps: &[CheckStep], logs: &Path) -> Vec<StepReport> {
    let place = |lane: StepLane| steps.iter().filter(move |step| step.lane == lane);
    let builds = place(StepLane::Building).any(|step| step.name == BUILD);
    let (built, is_built) = mpsc::sync_channel(1);
    let mut ran = thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            // The other lane may end without a build.
            if builds {
                let _ = is_built.recv();
            }
            place(StepLane::Waiting)
                .map(|step| run_beside(step, logs))
                .collect::<Vec<_>>()
        });
        let mut ran = Vec::new();
        for step in place(StepLane::Building) {
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

/// The step that builds the programs that serve clients and guests.
const BUILD: &str = "build";

fn run_beside(step: &CheckStep, logs: &Path) -> StepReport {
    let ran = step.run(logs);
    println!("\n==== beside it: {}", summary::row(&ran));
    ran
}

/// The steps whose names begin with one of `only`. All of them if it is empty.
pub(crate) fn chosen(steps: Vec<CheckStep>, only: &[String]) -> Vec<CheckStep> {
    let is_chosen = |step: &CheckStep| {
        only.is_empty()
            || only
                .iter()
                .any(|beginning| step.name.starts_with(beginning.as_str()))
    };
    steps.into_iter().filter(is_chosen).collect()
}

fn parse_args(words: &[&str]) -> Option<CiArgs> {
    let mut args = CiArgs::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--only" => args.only.push((*words.next()?).to_owned()),
            "--against" => args.against = Some(PathBuf::from(words.next()?)),
            "--list" => args.list = true,
            _ => return None,
        }
    }
    Some(args)
}

/// All steps, cheap ones first in each lane. But the program is built early, for the lane that waits for it.
fn steps(against: Option<&Path>) -> Vec<CheckStep> {
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
        sim_cluster(),
        fuzz(),
    ];
    steps.extend(clients(against));
    steps.extend([conformance(against), vm(), lend(), cluster()]);
    steps
}

/// A step of the building lane.
fn step(name: &'static str, seconds_quiet: u64, lines: Vec<CommandLine>) -> CheckStep {
    CheckStep {
        name,
        needs: &[],
        seconds_quiet,
        lane: StepLane::Building,
        lines,
    }
}

/// A step of the waiting lane.
fn waiting(
    name: &'static str,
    needs: &'static [&'static str],
    seconds_quiet: u64,
    line: CommandLine,
) -> CheckStep {
    CheckStep {
        name,
        needs,
        seconds_quiet,
        lane: StepLane::Waiting,
        lines: vec![line],
    }
}

fn cargo<const N: usize>(args: [&str; N]) -> CommandLine {
    CommandLine::new("cargo").args(args)
}

/// A cargo command that builds with the profile `checked`. All of them ask for the same features, so that no crate is
/// built twice.
fn checked<const N: usize>(args: [&'static str; N]) -> CommandLine {
    cargo(args).args([
        "--profile",
        PROFILE,
        "--locked",
        "--features=sublet-client/async,sublet-client/ffi",
    ])
}

/// A profile of `Cargo.toml`. Its programs lie in a folder of its name under `target`.
const PROFILE: &str = "checked";

/// The path of a program that the step `build` has built.
fn built(program: &str) -> PathBuf {
    root().join("target").join(PROFILE).join(program)
}

fn fmt() -> CheckStep {
    step("fmt", 10, vec![cargo(["fmt", "--all", "--check"])])
}

fn tidy() -> CheckStep {
    step("tidy", 40, vec![cargo(["xtask", "tidy"])])
}

fn clippy() -> CheckStep {
    let line = checked(["clippy", "--workspace", "--all-targets"]).args(["--", "-D", "warnings"]);
    step("clippy", 150, vec![line])
}

/// The workspace's tests.
fn test() -> CheckStep {
    let tests = |more: &[&'static str]| {
        checked(["test", "--workspace", "--no-fail-fast"])
            .args(more.iter().copied())
            .env("SUBLET_PROFILE", PROFILE)
    };
    // These tests look at the whole process, or build a library first. They run one after the other, and only when
    // asked for.
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

/// Model checks of the lock-free code, in every order in which threads can meet.
fn models() -> CheckStep {
    let line = cargo([
        "test",
        "--package",
        "sublet-store",
        "--lib",
        "--release",
        "--locked",
        "--target-dir",
        "target/loom",
        "orders::",
    ]);
    step("models", 150, vec![line.env("RUSTFLAGS", "--cfg loom")])
}

fn doc() -> CheckStep {
    let line = checked([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    step("doc", 120, vec![line.env("RUSTDOCFLAGS", "-D warnings")])
}

/// Builds the programs. Examples depend on what tests depend on. So the features are those of the tests, and nothing is
/// built again for them.
fn build() -> CheckStep {
    step(
        BUILD,
        330,
        vec![checked(["build", "--workspace", "--bins", "--examples"])],
    )
}

/// A client suite of another language. It gets the path of the program under test.
fn suite(line: CommandLine, against: Option<&Path>) -> CommandLine {
    match against {
        Some(memcached) => line.env("NODE_FACE", "peer").env("NODE_PROGRAM", memcached),
        None => line
            .env("NODE_PROGRAM", built("sublet"))
            .env("SUBLET_PROFILE", PROFILE),
    }
}

fn clients(against: Option<&Path>) -> Vec<CheckStep> {
    let run = |script: &str| {
        suite(
            CommandLine::new(root().join("tests/clients").join(script)),
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
fn ring() -> CheckStep {
    let line = CommandLine::new(root().join("tests/clients/ring/run"));
    let line = line.env("RING_EXAMPLES", built("examples"));
    CheckStep {
        needs: &["cc", "python3", "pkg-config", "readelf", "strip"],
        ..step("clients-ring", 60, vec![suite(line, None)])
    }
}

fn conformance(against: Option<&Path>) -> CheckStep {
    let line = CommandLine::new(root().join("tests/conformance/run"));
    let needs = &["prove", "cc", "make"];
    waiting("conformance", needs, 240, suite(line, against))
}

/// Checks of the package's content.
fn packaging() -> CheckStep {
    let line = CommandLine::new(root().join("tests/packaging/run"));
    CheckStep {
        needs: &["pkg-config", "python3", "readelf", "strip"],
        ..step("packaging", 40, vec![suite(line, None)])
    }
}

/// A program takes memory beside a small arena, and must come to no harm. This step does not judge times.
fn pressure() -> CheckStep {
    let lab = CommandLine::new(built("sublet-lab"));
    step(
        "pressure",
        200,
        vec![lab.args(["bench", "pressure", "--small"])],
    )
}

/// A thousand clusters of five nodes, with leaders, an etcd and faults, in virtual time.
fn sim_cluster() -> CheckStep {
    let lab = CommandLine::new(built("sublet-lab"));
    let seeds = ["sim", "cluster", "--nodes", "5", "--seeds", "1000"];
    step("sim-cluster", 60, vec![lab.args(seeds)])
}

/// The programs that are needed to boot guests and to judge their disks.
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

/// Real guests on Sublet's disks, and other programs on the same disks. Guests are emulated and have their own clocks.
/// Beside a build they take three times as long.
fn vm() -> CheckStep {
    CheckStep {
        needs: VM_NEEDS,
        ..step("vm", 280, vec![guests(&built("sublet"))])
    }
}

/// The suite of guests, two tests at once, with the `sublet` binary that serves them.
pub(crate) fn guests(program: &Path) -> CommandLine {
    CommandLine::new(root().join("tests/vm/run"))
        .args(["-n", "2"])
        .env("NODE_PROGRAM", program)
}

/// The programs that are needed for hosts in network namespaces, with guests on one of them.
pub(crate) const LEND_NEEDS: &[&str] = &[
    "ip",
    "nsenter",
    "openssl",
    "qemu-system-x86_64",
    "busybox",
    "cc",
    "python3",
    "fio",
];

/// Daemons that lend to each other, and what happens to them.
fn lend() -> CheckStep {
    CheckStep {
        needs: LEND_NEEDS,
        ..step("lend", 240, lenders(&built("sublet"), PROFILE).to_vec())
    }
}

/// The suite of lending, with the `sublet` binary and the ring's library of a profile.
pub(crate) fn lenders(program: &Path, profile: &str) -> [CommandLine; 2] {
    between_hosts("tests/lend/run", "3", program, profile)
}

/// A suite of daemons in network namespaces, after the ring's library. Some tests run at once, because most of them
/// wait.
fn between_hosts(suite: &str, at_once: &str, program: &Path, profile: &str) -> [CommandLine; 2] {
    let folder = root().join("target/lend").join(profile);
    let library = CommandLine::new(root().join("packaging/c-library"))
        .args([&folder])
        .env("SUBLET_PROFILE", profile);
    let tests = CommandLine::new(root().join(suite))
        .args(["-n", at_once])
        .env("NODE_PROGRAM", program)
        .env("SUBLET_LIBRARY", folder.join("libsublet_client.so"));
    [library, tests]
}

/// The programs that are needed for clusters in network namespaces.
pub(crate) const CLUSTER_NEEDS: &[&str] = &[
    "ip", "nsenter", "openssl", "etcd", "etcdctl", "cc", "python3",
];

/// Clusters of daemons, with a named leader and with etcd.
fn cluster() -> CheckStep {
    CheckStep {
        needs: CLUSTER_NEEDS,
        ..step("cluster", 180, clusters(&built("sublet"), PROFILE).to_vec())
    }
}

/// The suite of clusters, with the `sublet` binary and the ring's library of a profile. The laboratory lies beside the
/// binary, and judges what clients saw.
pub(crate) fn clusters(program: &Path, profile: &str) -> [CommandLine; 2] {
    between_hosts("tests/cluster/run", "4", program, profile)
}

/// Seconds per fuzz target: enough to find what a change breaks at once. `cargo xtask soak` gives each half an hour.
const FUZZ_SECONDS: &str = "10";

fn fuzz() -> CheckStep {
    CheckStep {
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
    use crate::step::StepOutcome;

    #[test]
    fn words_become_what_is_asked_for() {
        let args = parse_args(&["--only", "clients", "--against", "/bin/m"]).expect("it parses");
        assert_eq!(args.only, ["clients"]);
        assert_eq!(args.against.as_deref(), Some(Path::new("/bin/m")));
        assert_eq!(parse_args(&["--only"]), None);
        assert_eq!(parse_args(&["--faster"]), None);
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
        let line = |script: String| CommandLine::new("sh").args(["-c".to_owned(), script]);
        let build = step(BUILD, 1, vec![line(format!("mkdir {path}/built"))]);
        let beside = waiting("beside", &[], 1, line(format!("mkdir {path}/built/beside")));
        let met = format!("until [ -d {path}/built/beside ]; do sleep 0.01; done");
        let steps = [beside, build, step("meets", 1, vec![line(met)])];
        let ran = run_all(&steps, folder.path());
        let names: Vec<_> = ran.iter().map(|ran| ran.name).collect();
        assert_eq!(names, ["beside", BUILD, "meets"]);
        assert!(ran.iter().all(|ran| ran.outcome == StepOutcome::Passed));
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
