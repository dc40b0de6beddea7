//! What this machine has: programs, and processes that a command left behind.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;

/// Whether `program` is somewhere on the PATH.
pub(crate) fn has(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// Whether a step that cannot run is an error. In CI everything has to run.
pub(crate) fn is_strict() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// The target triple that the compiler builds for.
pub(crate) fn triple() -> Option<String> {
    let version = Command::new("rustc").arg("-vV").output().ok()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))?;
    Some(host.to_owned())
}

/// Ends a process and all that it started.
pub(crate) fn end_tree(pid: u32) {
    let mut doomed = descendants(pid);
    doomed.insert(0, pid);
    for pid in doomed {
        // It does not matter if some ended by themselves meanwhile.
        let _ = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .output();
    }
}

fn descendants(pid: u32) -> Vec<u32> {
    let children = children_by_parent();
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            found.push(child);
            open.push(child);
        }
    }
    found
}

fn children_by_parent() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The parent's pid in a line of /proc/PID/stat. The name before it stands in brackets and may contain anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (a) b) c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (sh) S 1 12"), Some(1));
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(has("sh"));
        assert!(!has("no-program-has-this-name"));
    }

    #[test]
    fn ending_a_tree_ends_the_grandchildren() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 600; true'; true"])
            .spawn()
            .expect("sh starts");
        let sleeper = loop {
            if let [_, sleeper] = descendants(shell.id())[..] {
                break sleeper;
            }
        };
        end_tree(shell.id());
        shell.wait().expect("it ended");
        while fs::read_to_string(format!("/proc/{sleeper}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z"))
        {
            std::thread::yield_now();
        }
    }
}
