//! Live changes of each version that is read: `tests/golden/README.md` says where the files come from.

use std::path::PathBuf;

use sublet_types::{EvictionKind, FileKind};

use super::*;

const BEFORE: &str = include_str!("../../../tests/golden/live-1.toml");
const TODAY: &str = include_str!("../../../tests/golden/live-2.toml");

/// The folder as an earlier daemon left it.
fn left(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("live.toml");
    fs::write(&path, text).expect("written");
    (folder, path)
}

fn start(folder: &Path) -> Result<LoadedConfig, LoadError> {
    load(None, &[("state", folder.display().to_string())])
}

#[test]
fn live_changes_of_each_version_that_is_read_hold() {
    for text in [BEFORE, TODAY] {
        let (folder, path) = left(text);
        let live = start(folder.path()).expect("it is read").live;
        let web = TenantChange {
            weight: Some(Weight(70)),
            floor: Some(Some(Bytes::mib(8))),
            ceiling: Some(Some(Bytes::mib(32))),
            eviction: Some(EvictionKind::Lru),
            ..TenantChange::default()
        };
        assert_eq!(live.change(&name("web")), web);
        let policy = live.policy().map(|policy| policy.name.as_str());
        assert_eq!(policy, Some("smart-alloc"));
        assert_eq!(live.folders(), [Path::new("/var/lib/images")]);
        let disk = |name: &str| live.disk(&name.parse().expect("a name"));
        assert_eq!(disk("db"), Some(&DiskChange::Removed));
        assert!(disk("swap").is_some_and(DiskChange::is_added));
        // What is written next has today's version, and equals the golden file to the letter. If you change the form,
        // give it another version.
        assert_eq!(live.export(), TODAY);
        live.write().expect("kept");
        assert_eq!(fs::read_to_string(path).expect("text"), TODAY);
    }
}

/// What a daemon wrote down itself is no reason not to start. What the config says holds.
#[test]
fn an_eviction_that_daemons_have_no_more_is_passed_over() {
    let sieve = TODAY.replace("eviction = \"lru\"", "eviction = \"sieve\"");
    assert_ne!(sieve, TODAY);
    let (folder, path) = left(&sieve);
    let loaded = start(folder.path()).expect("it is read");
    assert_eq!(loaded.passed_over, ["tenants.web.eviction = \"sieve\""]);
    let web = loaded.live.change(&name("web"));
    assert_eq!((web.weight, web.eviction), (Some(Weight(70)), None));
    loaded.live.write().expect("kept");
    assert!(!fs::read_to_string(path).expect("text").contains("eviction"));
}

/// Whatever else it says, and though nothing else in it is known.
#[test]
fn live_changes_of_a_newer_version_are_refused_by_both_and_stay() {
    let newer = TODAY.replace("version = 2", "version = 3\nfuture = [1, 2]");
    let (folder, path) = left(&newer);
    let error = start(folder.path()).expect_err("newer").to_string();
    assert_eq!(
        error,
        format!(
            "{}:3: a newer Sublet wrote live.toml: it has version 3, and this Sublet reads versions 1 and 2; it stays as it is",
            path.display()
        )
    );
    assert_eq!(fs::read_to_string(path).expect("text"), newer);
}

#[test]
fn a_version_is_a_number_and_no_config_file_has_one() {
    let (folder, _) = left("version = \"new\"\n");
    let error = start(folder.path()).expect_err("no number").to_string();
    assert!(error.contains("`version`"), "{error}");
    assert!(complaint("version = 2\n").contains("[version]"));
    assert!(TODAY.contains(&format!("version = {}\n", FileKind::LiveChanges.current())));
}
