//! How many processes and threads there may be, by the limits of cgroups, version 1 and 2.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit of tasks, and how many tasks count against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskQuota {
    pub(super) limit: u64,
    pub(super) now: u64,
}

impl TaskQuota {
    pub(super) fn remaining(self) -> u64 {
        self.limit.saturating_sub(self.now)
    }
}

/// The tightest limit of this process's cgroup and those above it. `root` is the root of the host's file systems.
pub(super) fn tightest(root: &Path) -> Option<TaskQuota> {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (cgroups, mounts) = (text("proc/self/cgroup"), text("proc/self/mountinfo"));
    let folders = folders(&cgroups, &mounts).into_iter();
    let all = folders.filter_map(|folder| read(&root.join(folder.strip_prefix("/").ok()?)));
    all.min_by_key(|tasks| tasks.remaining())
}

fn read(folder: &Path) -> Option<TaskQuota> {
    let number = |file| {
        fs::read_to_string(folder.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    Some(TaskQuota {
        limit: number("pids.max")?, // not a number where it says `max`
        now: number("pids.current")?,
    })
}

/// The folders of the cgroup that counts this process's tasks, and of those above it, innermost first.
fn folders(cgroups: &str, mounts: &str) -> Vec<PathBuf> {
    let path_of = |controller: &str| {
        let mut lines = cgroups.lines().filter_map(|line| {
            let (_, named) = line.split_once(':')?;
            named.split_once(':')
        });
        lines
            .find(|(names, _)| names.split(',').any(|name| name == controller))
            .map(|(_, path)| path)
    };
    let mut all = Vec::new();
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else {
            continue;
        };
        let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
        let (Some(top), Some(mounted)) = (place.next(), place.next()) else {
            continue;
        };
        let path = match (kind.next(), kind.nth(1)) {
            (Some("cgroup2"), _) => path_of(""),
            (Some("cgroup"), Some(options))
                if options.split(',').any(|option| option == "pids") =>
            {
                path_of("pids")
            }
            _ => None,
        };
        if let Some(inner) = path.and_then(|path| Path::new(path).strip_prefix(top).ok()) {
            let inner = inner.ancestors();
            all.extend(inner.map(|inner| Path::new(mounted).join(inner)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(cgroups: &str, mount: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let all = [
            ("proc/self/cgroup", cgroups),
            ("proc/self/mountinfo", mount),
        ];
        for (path, text) in all.iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn the_tightest_limit_of_version_two_may_be_above() {
        let root = host(
            "0::/slice/unit\n",
            "30 24 0:26 / /cg rw - cgroup2 cgroup2 rw,nsdelegate\n",
            &[
                ("cg/slice/unit/pids.max", "max\n"),
                ("cg/slice/unit/pids.current", "7\n"),
                ("cg/slice/pids.max", "100\n"),
                ("cg/slice/pids.current", "90\n"),
            ],
        );
        let found = tightest(root.path()).expect("a limit");
        assert_eq!(
            (found, found.remaining()),
            (
                TaskQuota {
                    limit: 100,
                    now: 90
                },
                10
            )
        );
    }

    #[test]
    fn the_limit_of_version_one_is_found_within_a_container() {
        let root = host(
            "8:pids:/docker/abc\n4:memory:/docker/abc\n0::/\n",
            "31 30 0:27 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n\
             32 30 0:28 /docker/abc /cg/pids rw - cgroup cgroup rw,pids\n",
            &[
                ("cg/pids/pids.max", "64\n"),
                ("cg/pids/pids.current", "70\n"),
            ],
        );
        let found = tightest(root.path()).expect("a limit");
        assert_eq!(found.remaining(), 0);
    }

    #[test]
    fn without_a_limit_there_is_none() {
        let root = host(
            "8:pids:/\n",
            "32 30 0:28 / /cg/pids rw - cgroup cgroup rw,pids\n",
            &[],
        );
        assert_eq!(tightest(root.path()), None);
        assert_eq!(tightest(Path::new("/nowhere")), None);
    }
}
