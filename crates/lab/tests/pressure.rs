//! `sublet-lab bench pressure` on this machine, at a size that does no harm.

use std::process::Command;

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sublet-lab"))
        .args(["bench", "pressure", "--json"])
        .args(arguments)
        .output()
        .expect("sublet-lab runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn ours(report: &serde_json::Value, ending: &str) -> f64 {
    let rows = report["rows"].as_array().expect("rows");
    let row = rows
        .iter()
        .find(|row| {
            row["name"]
                .as_str()
                .is_some_and(|name| name.ends_with(ending))
        })
        .unwrap_or_else(|| panic!("a row {ending} in {rows:?}"));
    row["ours"].as_f64().expect("a number")
}

#[test]
fn memory_is_taken_and_the_host_told_of() {
    for pages in ["small", "huge"] {
        let report = json(&["--take", "64MiB", "--for", "0s", "--pages", pages]);
        assert!(ours(&report, "time") > 0.0);
        assert_eq!(ours(&report, "killed"), 0.0);
        let sentence = report["notes"][0].as_str().expect("a sentence");
        assert!(sentence.starts_with("took 64.0 MiB"), "{sentence}");
    }
}

#[test]
fn what_is_not_there_cannot_be_taken() {
    let report = json(&["--take", "9000TiB", "--for", "0s"]);
    assert_eq!(ours(&report, "killed"), 1.0);
}
