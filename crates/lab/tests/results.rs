//! `sublet-lab sim results`, as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn results(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sublet-lab"))
        .args(["sim", "results"])
        .args(arguments)
        .output()
        .expect("sublet-lab runs")
}

/// Copies the kept records into `dir`.
fn copy_records(dir: &Path) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator/results");
    fs::create_dir(dir.join("results")).expect("a folder");
    for entry in fs::read_dir(kept).expect("the records") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|ending| ending == "json") {
            let name = file.file_name().expect("a name");
            fs::copy(&file, dir.join("results").join(name)).expect("a copy");
        }
    }
}

#[test]
fn a_page_is_rendered_from_the_records_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    copy_records(folder.path());
    let dir = folder.path().to_str().expect("a plain name");
    let output = results(&["--render", "--dir", dir]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let page = fs::read_to_string(folder.path().join("results.md")).expect("the page");
    assert!(page.contains("## SmarTmem") && !page.contains("{{"));
    assert!(folder.path().join("results/smartmem.svg").is_file());
}

#[test]
fn experiments_on_traces_stay_as_they_were_without_the_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    copy_records(folder.path());
    let dir = folder.path().to_str().expect("a plain name");
    let output = results(&["--only", "sharing", "--dir", dir]);
    assert!(output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("sharing reads public traces"), "{errors}");
    let kept = |root: &Path| fs::read(root.join("results/sharing.json")).expect("a record");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator");
    assert_eq!(kept(folder.path()), kept(&ours));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    let empty = tempfile::tempdir().expect("a folder");
    let empty = empty.path().to_str().expect("a plain name");
    for (arguments, code, expected) in [
        (vec!["--seed", "2"], 2, "--seed has no effect"),
        (vec!["--json"], 2, "--json has no effect"),
        (vec!["--only", "bananas"], 2, "[possible values: sharing,"),
        (vec!["--render", "--traces", "."], 2, "cannot be used with"),
        (vec!["--render", "--dir", "nonesuch"], 2, "no such folder"),
        (vec!["--traces", "nonesuch", "--dir", empty], 2, "nonesuch"),
        (
            vec!["--render", "--dir", empty],
            1,
            "record the experiment first",
        ),
    ] {
        let output = results(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}
