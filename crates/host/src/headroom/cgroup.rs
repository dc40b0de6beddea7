//! The memory limits that bind this process: those of its own cgroup and of the cgroups above it, versions 1 and 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sublet_types::{Bytes, CgroupFigures};

use super::proc_file::{ProcFile, entries, only_number};

/// The most levels of cgroups that are read, from this process upwards.
const LEVELS_MAX: usize = 32;

/// This process's cgroup and those above it.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    levels: Vec<CgroupLevel>,
}

#[derive(Debug)]
struct CgroupLevel {
    limits: Vec<ProcFile>,
    usage: ProcFile,
    stat: ProcFile,
    names: &'static CgroupFileNames,
    limit: Bytes,
    inactive_file: Bytes,
    refaults: u64,
}

/// The names that a version gives its files and figures.
#[derive(Debug)]
pub(super) struct CgroupFileNames {
    pub(super) limits: &'static [&'static str],
    pub(super) usage: &'static str,
    inactive_file: &'static [u8],
    /// Before Linux 5.9 the kernel counts only file pages, and their name does not say so.
    pub(super) refaults: [&'static [u8]; 2],
    pub(super) swap_refaults: &'static [u8],
}

static V1: CgroupFileNames = CgroupFileNames {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    inactive_file: b"total_inactive_file",
    refaults: [
        b"total_workingset_refault_file",
        b"total_workingset_refault",
    ],
    swap_refaults: b"total_workingset_refault_anon",
};

static V2: CgroupFileNames = CgroupFileNames {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    inactive_file: b"inactive_file",
    refaults: [b"workingset_refault_file", b"workingset_refault"],
    swap_refaults: b"workingset_refault_anon",
};

impl Cgroups {
    /// Finds the cgroups through `/proc/self`. The result is empty if there are none.
    pub(super) fn of_this_process(proc: &Path) -> Cgroups {
        let text =
            |name: &str| fs::read_to_string(proc.join("self").join(name)).unwrap_or_default();
        Cgroups::of(&text("cgroup"), &text("mountinfo"))
    }

    fn of(memberships: &str, mounts: &str) -> Cgroups {
        let levels = folders(memberships, mounts)
            .take(LEVELS_MAX)
            .filter_map(|(folder, names)| CgroupLevel::open(&folder, names).ok())
            .collect();
        Cgroups { levels }
    }

    pub(super) fn read_limits(&mut self) {
        for level in &mut self.levels {
            level.read_limit();
        }
    }

    pub(super) fn read_stats(&mut self) {
        for level in &mut self.levels {
            level.read_stat();
        }
    }

    /// The level with the least idle memory, among those whose limit is below the host's `memory`.
    pub(super) fn tightest(&mut self, memory: Bytes) -> Option<CgroupFigures> {
        self.levels
            .iter_mut()
            .filter(|level| level.limit < memory)
            .filter_map(CgroupLevel::figures)
            .min_by_key(CgroupFigures::idle)
    }
}

impl CgroupLevel {
    fn open(folder: &Path, names: &'static CgroupFileNames) -> io::Result<CgroupLevel> {
        let limits = names.limits.iter();
        Ok(CgroupLevel {
            limits: limits
                .map(|name| ProcFile::open(folder.join(name)))
                .collect::<io::Result<_>>()?,
            usage: ProcFile::open(folder.join(names.usage))?,
            stat: ProcFile::open(folder.join("memory.stat"))?,
            names,
            limit: Bytes(u64::MAX),
            inactive_file: Bytes::ZERO,
            refaults: 0,
        })
    }

    fn read_limit(&mut self) {
        let limits = self.limits.iter_mut();
        let least = limits
            .filter_map(|file| only_number(file.read().ok()?))
            .min();
        self.limit = Bytes(least.unwrap_or(u64::MAX));
    }

    fn read_stat(&mut self) {
        let Ok(text) = self.stat.read() else { return };
        for (key, count) in entries(text) {
            if key == self.names.inactive_file {
                self.inactive_file = Bytes(count);
            } else if self.names.refaults.contains(&key) {
                self.refaults = count;
            }
        }
    }

    fn figures(&mut self) -> Option<CgroupFigures> {
        let usage = only_number(self.usage.read().ok()?)?;
        Some(CgroupFigures {
            limit: self.limit,
            usage: Bytes(usage),
            inactive_file: self.inactive_file,
            refaults: self.refaults,
        })
    }
}

/// The top of a hierarchy of memory cgroups, and this process's own cgroup in it.
pub(super) struct CgroupRoot {
    pub(super) own: PathBuf,
    pub(super) point: PathBuf,
    pub(super) names: &'static CgroupFileNames,
}

/// The hierarchies that this process can see. Each appears once, even if a chroot or a bind mount mounts it elsewhere
/// too.
pub(super) fn cgroup_roots(memberships: &str, mounts: &str) -> Vec<CgroupRoot> {
    let mut known = Vec::<CgroupMount>::new();
    for mount in mounts.lines().filter_map(CgroupMount::parse) {
        if !known.iter().any(|other| other.contains(&mount)) {
            known.retain(|other| !mount.contains(other));
            known.push(mount);
        }
    }
    let seen = known.into_iter().filter_map(|mount| {
        let path = membership(memberships, mount.names)?;
        let below = path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
        Some(CgroupRoot {
            own: mount.point.join(below),
            point: mount.point,
            names: mount.names,
        })
    });
    seen.collect()
}

/// The folders of this process's memory cgroup and of those above it, innermost first.
fn folders(
    memberships: &str,
    mounts: &str,
) -> impl Iterator<Item = (PathBuf, &'static CgroupFileNames)> {
    let tops = cgroup_roots(memberships, mounts).into_iter();
    tops.flat_map(|top| {
        let levels = top.own.ancestors();
        let levels = levels.take_while(|folder| folder.starts_with(&top.point));
        let levels: Vec<_> = levels
            .map(|folder| (folder.to_owned(), top.names))
            .collect();
        levels
    })
}

/// This process's path in the hierarchy of that version: `4:memory:/a/b` or `0::/a/b`.
fn membership(memberships: &str, names: &'static CgroupFileNames) -> Option<PathBuf> {
    memberships.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let is_it = if std::ptr::eq(names, &V2) {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|name| name == "memory")
        };
        let path = parts.next()?;
        (is_it && !path.contains("..")).then(|| PathBuf::from(path))
    })
}

/// A mounted hierarchy of cgroups.
struct CgroupMount {
    /// The hierarchy's file system.
    device: String,
    /// The cgroup that is its top.
    root: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
    names: &'static CgroupFileNames,
}

impl CgroupMount {
    /// Parses a line of `/proc/self/mountinfo`: `36 35 0:31 /root /point opts … - type source superopts`.
    fn parse(line: &str) -> Option<CgroupMount> {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let names = match kind.next()? {
            "cgroup2" => &V2,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => &V1,
            _ => return None,
        };
        let mut place = place.split(' ').skip(2);
        Some(CgroupMount {
            device: place.next()?.to_owned(),
            root: PathBuf::from(place.next()?),
            point: PathBuf::from(place.next()?),
            names,
        })
    }

    /// Returns whether all of the other mount's cgroups are in this one.
    fn contains(&self, other: &CgroupMount) -> bool {
        // A root that begins with `..` lies above this process's namespace.
        let is_below = other.root.starts_with(&self.root) && !other.root.starts_with("/..");
        self.device == other.device && (is_below || other.root == self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).expect("made");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("written");
        }
    }

    fn read(cgroups: &mut Cgroups) -> Option<CgroupFigures> {
        cgroups.read_limits();
        cgroups.read_stats();
        cgroups.tightest(Bytes::gib(24))
    }

    #[test]
    fn the_tightest_level_of_version_2_binds() {
        let top = tempfile::tempdir().expect("a folder");
        let own = top.path().join("slice/unit");
        let stat = (
            "memory.stat",
            "anon 5\ninactive_file 4096\nworkingset_refault_file 3\n",
        );
        write(
            &own,
            &[
                ("memory.max", "max\n"),
                ("memory.high", "2147483648\n"),
                ("memory.current", "1048576\n"),
                stat,
            ],
        );
        write(
            &top.path().join("slice"),
            &[
                ("memory.max", "1073741824\n"),
                ("memory.high", "max\n"),
                ("memory.current", "2097152\n"),
                stat,
            ],
        );
        let mounts = format!(
            "30 24 0:26 / {} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            top.path().display()
        );
        let mut cgroups = Cgroups::of("0::/slice/unit\n", &mounts);
        assert_eq!(
            read(&mut cgroups),
            Some(CgroupFigures {
                limit: Bytes::gib(1),
                usage: Bytes::mib(2),
                inactive_file: Bytes(4096),
                refaults: 3,
            })
        );
    }

    #[test]
    fn version_1_in_a_container_is_found_below_its_mounts_root() {
        let top = tempfile::tempdir().expect("a folder");
        write(
            top.path(),
            &[
                ("memory.limit_in_bytes", "536870912\n"),
                ("memory.usage_in_bytes", "1048576\n"),
                ("memory.stat", "inactive_file 1\ntotal_inactive_file 8192\n"),
            ],
        );
        let mounts = format!(
            "31 30 0:27 /docker/abc {} rw - cgroup cgroup rw,cpu\n\
             32 30 0:28 /docker/abc {} rw - cgroup cgroup rw,memory\n",
            "/nowhere",
            top.path().display()
        );
        let mut cgroups = Cgroups::of("4:memory:/docker/abc\n3:cpu:/docker/abc\n", &mounts);
        let figures = read(&mut cgroups).expect("a limit");
        assert_eq!(figures.limit, Bytes::mib(512));
        assert_eq!(figures.inactive_file, Bytes(8192));
    }

    #[test]
    fn a_hierarchy_that_is_mounted_twice_is_one() {
        let mounts = "30 24 0:26 /pods /first rw - cgroup2 cgroup2 rw\n\
             40 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n\
             41 24 0:26 / /chroot/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
             42 24 0:26 /pods /bound rw - cgroup2 cgroup2 rw\n\
             43 24 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let tops = cgroup_roots("0::/pods/a\n4:memory:/b\n", mounts);
        let points: Vec<_> = tops.iter().map(|top| top.point.as_path()).collect();
        let kept = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];
        assert_eq!(points, kept.map(Path::new));
    }

    #[test]
    fn a_limit_beyond_the_hosts_memory_is_none() {
        let top = tempfile::tempdir().expect("a folder");
        write(
            top.path(),
            &[
                ("memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory.usage_in_bytes", "1048576\n"),
                ("memory.stat", "total_inactive_file 8192\n"),
            ],
        );
        let mounts = format!(
            "32 30 0:28 / {} rw - cgroup cgroup rw,memory\n",
            top.path().display()
        );
        assert_eq!(read(&mut Cgroups::of("4:memory:/\n", &mounts)), None);
        assert_eq!(read(&mut Cgroups::of("", "")), None);
    }
}
