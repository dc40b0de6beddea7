//! `cargo xtask ci`: what must pass before a change lands.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::checkout::root;
use crate::command::Line;
use crate::step::{Ran, Step};
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
    summary::close(&run_all(&steps, &root().join("target/ci")))
}

/// Runs every step, whatever became of those before it.
pub(crate) fn run_all(steps: &[Step], logs: &Path) -> Vec<Ran> {
    let mut ran = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        println!("\n==== {} ({} of {})", step.name, n + 1, steps.len());
        ran.push(step.run(logs));
    }
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

/// Every step, cheap ones first.
fn steps(against: Option<&Path>) -> Vec<Step> {
    let mut steps = vec![fmt(), tidy(), clippy(), test(), models(), doc(), build()];
    steps.extend(clients(against));
    steps.push(ring());
    steps.push(conformance(against));
    steps.push(packaging());
    steps.push(pressure());
    steps.push(vm());
    steps.extend(fuzz());
    steps
}

fn step(name: &'static str, minutes_max: u64, lines: Vec<Line>) -> Step {
    Step {
        name,
        needs: &[],
        minutes_max,
        lines,
    }
}

fn cargo<const N: usize>(args: [&str; N]) -> Line {
    Line::new("cargo").args(args)
}

fn fmt() -> Step {
    step("fmt", 2, vec![cargo(["fmt", "--all", "--check"])])
}

fn tidy() -> Step {
    step("tidy", 2, vec![cargo(["xtask", "tidy"])])
}

fn clippy() -> Step {
    let line = cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]);
    let ring = cargo([
        "clippy",
        "--package=sublet-client",
        "--all-targets",
        "--features=async,ffi",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]);
    step("clippy", 15, vec![line, ring])
}

fn test() -> Step {
    let all = cargo(["test", "--workspace", "--locked", "--no-fail-fast"]);
    let ring = cargo([
        "test",
        "--package=sublet-client",
        "--features=async,ffi",
        "--locked",
    ]);
    // These look at the whole process, or build a library first: one after the other, and only when asked.
    let alone = cargo([
        "test",
        "--package=sublet-frontends",
        "--lib",
        "--locked",
        "--",
        "--ignored",
        "--test-threads=1",
        "ring::tests::fair",
        "ring::tests::hostile",
    ]);
    step("test", 25, vec![all, ring, alone])
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
    step("models", 10, vec![line.env("RUSTFLAGS", "--cfg loom")])
}

fn doc() -> Step {
    let line = cargo([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
    ]);
    step("doc", 10, vec![line.env("RUSTDOCFLAGS", "-D warnings")])
}

fn build() -> Step {
    step(
        "build",
        15,
        vec![cargo([
            "build",
            "--release",
            "--locked",
            "--package",
            "sublet",
            "--package",
            "sublet-lab",
        ])],
    )
}

/// A client suite of another language, told where the program under test is.
fn suite(line: Line, against: Option<&Path>) -> Line {
    match against {
        Some(memcached) => line.env("NODE_FACE", "peer").env("NODE_PROGRAM", memcached),
        None => line.env("NODE_PROGRAM", root().join("target/release/sublet")),
    }
}

fn clients(against: Option<&Path>) -> Vec<Step> {
    let run = |script: &str| {
        suite(
            Line::new(root().join("tests/clients").join(script)),
            against,
        )
    };
    let step = |name, needs, script| Step {
        name,
        needs,
        minutes_max: 10,
        lines: vec![run(script)],
    };
    vec![
        step(
            "clients-python",
            &["python3", "memccapable", "nc"],
            "python/run",
        ),
        step("clients-go", &["go"], "go/run"),
        step("clients-java", &["java", "mvn"], "java/run"),
        step("clients-node", &["node", "npm"], "node/run"),
    ]
}

/// Programs in Rust, C and Python on a page ring.
fn ring() -> Step {
    let line = Line::new(root().join("tests/clients/ring/run"));
    Step {
        name: "clients-ring",
        needs: &["cc", "python3", "pkg-config", "readelf", "strip"],
        minutes_max: 15,
        lines: vec![suite(line, None)],
    }
}

fn conformance(against: Option<&Path>) -> Step {
    Step {
        name: "conformance",
        needs: &["prove", "cc", "make"],
        minutes_max: 15,
        lines: vec![suite(
            Line::new(root().join("tests/conformance/run")),
            against,
        )],
    }
}

/// What the package is made of.
fn packaging() -> Step {
    let line = Line::new(root().join("tests/packaging/run"));
    Step {
        name: "packaging",
        needs: &["pkg-config", "readelf", "strip"],
        minutes_max: 5,
        lines: vec![suite(line, None)],
    }
}

/// A program that takes memory beside a small arena: it must come to no harm. Times are not judged here.
fn pressure() -> Step {
    let lab = Line::new(root().join("target/release/sublet-lab"));
    step(
        "pressure",
        12,
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

/// Real guests on disks of ours, and others' tools on the same disks.
fn vm() -> Step {
    Step {
        name: "vm",
        needs: VM_NEEDS,
        minutes_max: 8,
        lines: vec![guests()],
    }
}

/// The suite of guests, two tests at once, with the `sublet` binary that serves them.
pub(crate) fn guests() -> Line {
    suite(
        Line::new(root().join("tests/vm/run")).args(["-n", "2"]),
        None,
    )
}

/// Seconds that each fuzz target gets.
const FUZZ_SECONDS: &str = "30";

fn fuzz() -> Vec<Step> {
    let run = |target| cargo(["xtask", "fuzz", target, FUZZ_SECONDS]);
    let lines = crate::fuzz::TARGETS.map(run).to_vec();
    vec![Step {
        name: "fuzz",
        needs: &["c++"],
        minutes_max: 15,
        lines,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "clients-python",
                "clients-go",
                "clients-java",
                "clients-node",
                "clients-ring"
            ]
        );
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
