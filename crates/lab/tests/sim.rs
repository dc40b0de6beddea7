//! `sublet-lab sim`, as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

const SMALL: &str = r#"
name = "small"
seed = 3
duration = "1m"
[host]
memory = "4MiB"
[[vm]]
name = "a"
memory = "1MiB"
[vm.workload.zipf]
size = "8MiB"
operations = 3000
"#;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sublet-lab"))
        .arg("sim")
        .args(arguments)
        .output()
        .expect("sublet-lab runs")
}

fn stdout_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", complaint(output));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&stdout_of(&lab(&arguments))).expect("JSON")
}

fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let file = folder.join(name);
    std::fs::write(&file, bytes).expect("a file");
    file.to_str().expect("a plain name").to_owned()
}

#[test]
fn what_is_shipped_is_listed_with_a_line_each() {
    let list = stdout_of(&lab(&["list"]));
    assert!(list.lines().count() >= 8, "{list}");
    assert!(
        list.contains("smartmem-1       SmarTmem, scenario 1"),
        "{list}"
    );
    assert_eq!(json(&["list"])["version"], 1);
}

#[test]
fn a_scenario_runs_and_its_seed_tells_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(folder.path(), "small.toml", SMALL);
    let table = stdout_of(&lab(&["run", &file]));
    assert!(table.starts_with("small, seed 3\n| vm "), "{table}");
    assert_eq!(table, stdout_of(&lab(&["run", &file])));
    let other = json(&["run", &file, "--seed", "4"]);
    assert_eq!(
        (&other["version"], &other["runs"][0]["seed"]),
        (&1.into(), &4.into())
    );
}

#[test]
fn policies_and_evictions_are_compared_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(folder.path(), "small.toml", SMALL);
    let plot = folder.path().join("out.svg");
    let arguments = [
        "compare",
        &file,
        "--policies",
        "greedy,smart-alloc:p=0.75",
        "--evictions",
        "lru,x-s3h",
        "--without-tier",
        "--plot",
        plot.to_str().expect("a plain name"),
    ];
    let report = json(&arguments);
    let label = |run: usize| report["runs"][run]["label"].as_str().unwrap_or("");
    assert_eq!(label(0), "greedy, lru");
    assert_eq!(label(3), "smart-alloc p=0.75, x-s3h");
    assert_eq!(label(4), "no tmem");
    let drawn = std::fs::read_to_string(plot).expect("a plot");
    assert!(drawn.starts_with("<svg") && drawn.contains("running times"));
}

#[test]
fn a_trace_is_replayed_with_each_client_and_the_misses_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..4000u32)
        .map(|n| format!("{} 1 0 {n}\n", (n * n) % 1999))
        .collect();
    let file = written(folder.path(), "oltp.lis", lines);
    let arguments = ["compare", "--trace", &file, "--evictions", "lru,x-s3h"];
    let report = json(&arguments);
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["labels"][1], "greedy, x-s3h");
    let row = &report["rows"][0];
    assert!(row["gets"].as_u64() >= row["misses"][0].as_u64());
    assert!(stdout_of(&lab(&arguments)).contains("| mean "));
}

#[test]
fn what_makes_no_sense_is_told_with_place_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = SMALL.replace("operations", "opreations");
    let wrong = written(folder.path(), "wrong.toml", wrong);
    let picture = written(folder.path(), "a.png", "");
    for (arguments, expected) in [
        (vec!["run", "nonesuch"], "`sublet-lab sim list` names"),
        (
            vec!["run", &wrong],
            "line 12: no key is called `opreations`",
        ),
        (vec!["run", &wrong], "did you mean `operations`?"),
        (
            vec!["compare", "--policies", "gready"],
            "did you mean greedy?",
        ),
        (vec!["compare", "--evictions", "mru"], "mru"),
        (
            vec!["run", "mixed", "--plot", "/nonesuch/a.svg"],
            "nothing can be written to /nonesuch",
        ),
        (vec!["compare", "--trace", &picture], "(--format)"),
        (
            vec!["compare", "--trace", &picture, "--client", "0"],
            "above 0",
        ),
        (
            vec!["compare", "--policies", "bananas"],
            "there are greedy, weights,",
        ),
        (vec!["compare", "--client", "2"], "--trace"),
        (vec!["compare", "mixed", "--client", "2"], "--client"),
        (vec!["compare", "mixed", "--tier", "2"], "--tier"),
        (vec!["compare", "mixed", "--format", "lis"], "--format"),
        (vec!["smartmem", "--shrink", "often"], "active or never"),
        (vec!["vmca", "--scenarios", "5"], "are 1, 2, 3 and 4"),
        (vec!["vmca", "--scale", "3"], "must be 1, 2, 4,"),
        (vec!["disk", "--unwatched"], "--unwatched has no effect"),
        (
            vec!["sharing", "--traces", ".", "--closely"],
            "--closely has no effect",
        ),
        (vec!["list", "--seed", "2"], "--seed has no effect"),
    ] {
        let output = lab(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            complaint(&output).contains(expected),
            "{}",
            complaint(&output)
        );
    }
}

#[test]
fn what_cannot_be_done_is_a_failure_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = written(folder.path(), "w1.trace", [1, 0, 0, 0, 2, 0]);
    let empty = written(folder.path(), "empty.lis", []);
    let follows = SMALL.replace(
        "[vm.workload.zipf]\nsize = \"8MiB\"\noperations = 3000",
        "[vm.workload.trace]\nfile = \"gone.lis\"",
    );
    let follows = written(folder.path(), "follows.toml", follows);
    let small = written(folder.path(), "small.toml", SMALL);
    for (arguments, expected) in [
        (
            vec!["compare", "--trace", &short],
            "byte 4: ends in mid-record",
        ),
        (
            vec!["compare", "--trace", "nonesuch.lis"],
            "cannot open nonesuch.lis",
        ),
        (
            vec!["compare", "--trace", "nonesuch"],
            "cannot open nonesuch",
        ),
        (vec!["compare", "--trace", "/"], "is a directory"),
        (vec!["compare", "--trace", &empty], "holds no access"),
        (vec!["run", &follows], "cannot open gone.lis"),
        (vec!["run", &small, "--plot", "/dev/full"], "--plot wants"),
    ] {
        let output = lab(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            complaint(&output).contains(expected),
            "{}",
            complaint(&output)
        );
    }
}

#[test]
fn ways_of_caching_a_disk_are_compared_and_a_missing_trace_is_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..4_000)
        .map(|n| format!("{} 16 0 {n}\n", n * 7_919 % 10_000 * 16))
        .collect();
    let trace = written(folder.path(), "made.lis", lines);
    let plot = folder.path().join("a.svg");
    let arguments = [
        "disk",
        "--trace",
        &trace,
        "--trace",
        "gone.lis",
        "--client",
        "2",
        "--plot",
        plot.to_str().expect("a plain name"),
    ];
    let said = json(&arguments);
    assert_eq!(said["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(said["rows"][0]["trace"], "made.lis");
    assert_eq!(said["notes"][0], "Skipped: there is no gone.lis.");
    assert_eq!(said["questions"].as_array().map(Vec::len), Some(13));
    assert!(
        std::fs::read_to_string(plot)
            .expect("a plot")
            .contains("drop-on-read")
    );
}

#[test]
fn nodes_that_borrow_stand_beside_the_paper_and_a_seed_tells_their_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("a.svg");
    let plot_file = plot.to_str().expect("a plain name");
    let arguments = ["vmca", "--scenarios", "2", "--seeds", "1", "--scale", "32"];
    let said = json(&[&arguments[..], &["--plot", plot_file]].concat());
    assert_eq!(said["tables"].as_array().map(Vec::len), Some(3));
    assert_eq!(said["tables"][1]["columns"][1], "the paper's");
    assert_eq!(said["tables"][1]["rows"][0]["values"][1], 50.84);
    assert_eq!(said, json(&arguments));
    let drawn = std::fs::read_to_string(plot).expect("a plot");
    assert!(drawn.contains("Scenario 2: how much less time"));
}

/// A disk and a persistent pool with a page each, and a client that has written both.
const HISTORY: &str = r#"{"kind": "pool", "pool": "a/disk", "promise": "disk"}
{"kind": "pool", "pool": "a/kept", "promise": "persistent"}
{"kind": "write", "client": "c", "began": 1, "ended": 2, "pool": "a/disk", "page": 7, "wrote": [1, 1]}
{"kind": "write", "client": "c", "began": 3, "ended": 4, "pool": "a/disk", "page": 7, "wrote": [2]}
{"kind": "write", "client": "c", "began": 5, "ended": 6, "pool": "a/kept", "page": 0, "wrote": [1]}
"#;

/// A history whose last line is a read that finds this.
fn read_history(pool: &str, page: u32, found: &str) -> String {
    format!(
        r#"{HISTORY}{{"kind": "read", "client": "d", "began": 7, "ended": 8, "pool": "{pool}", "page": {page}, "found": [{found}]}}"#
    )
}

#[test]
fn a_history_is_judged_and_the_first_wrong_page_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let right = written(
        folder.path(),
        "right.jsonl",
        read_history("a/disk", 7, "2, 1"),
    );
    let told = stdout_of(&lab(&["judge", &right]));
    assert!(told.contains("4 calls of 2 clients at 2 pools"), "{told}");
    assert_eq!(json(&["judge", &right])["pages_found"], 2);

    let other = r#"{"pool": "b/disk", "page": 7, "version": 2}"#;
    let wrongs = [
        (
            read_history("a/disk", 7, "1"),
            "content: client d found version 1 at page 7 of a/disk",
        ),
        (
            read_history("a/disk", 7, other),
            "found version 2 of page 7 of b/disk at page 7 of a/disk",
        ),
        (
            read_history("a/disk", 7, "\"damaged\""),
            "found bytes that nobody wrote",
        ),
        (
            read_history("a/kept", 0, "null"),
            "lost: client d found nothing at page 0 of a/kept",
        ),
    ];
    for (history, told) in wrongs {
        let file = written(folder.path(), "wrong.jsonl", history);
        let output = lab(&["judge", &file]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = complaint(&output);
        assert!(complaint.contains(&format!("{file}:6: ")), "{complaint}");
        assert!(complaint.contains(told), "{complaint}");
    }
    let file = written(folder.path(), "garbled.jsonl", format!("{HISTORY}{{"));
    let output = lab(&["judge", &right, &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains(&format!("{file}:6: no line of a history")));
}
