//! Containers at a memory limit of their own. What such a one misses, its limit takes from it and not the host: it is taken
//! off what the kernel counts for the whole host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_types::Bytes;

use super::cgroup::{Names, tops};
use super::proc_file::{ProcFile, entries, only_number};

/// Cgroups that are looked through for limits.
const CGROUPS_MAX: usize = 4096;

/// Cgroups with a limit that are followed. A host has tens of containers, seldom hundreds.
const FOLLOWED_MAX: usize = 256;

/// Cgroups that one look goes through: this is the thread that gives memory back.
const STEP_MAX: usize = 16;

/// From one pass through all of them to the next.
const PASS_EVERY: Duration = Duration::from_secs(2);

/// Who has less than this part of its limit left is at it: the kernel takes a little more back than it must.
const SLACK_SHARE: u64 = 16;

/// What the cgroups at their limits missed, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// File pages.
    pub(super) files: u64,
    /// Pages that had been swapped out.
    pub(super) swapped: u64,
}

/// The host's cgroups with limits, but for this process's own.
#[derive(Debug, Default)]
pub(super) struct Limited {
    tops: Vec<(PathBuf, &'static Names)>,
    own: Vec<PathBuf>,
    pass: Pass,
    followed: Vec<Followed>,
    missed: Missed,
}

/// A way through all cgroups, a few at a time.
#[derive(Debug, Default)]
struct Pass {
    began: Option<Duration>,
    ahead: Vec<(PathBuf, &'static Names)>,
    visited: usize,
    found: Vec<Followed>,
}

#[derive(Debug)]
struct Followed {
    folder: PathBuf,
    limits: Vec<ProcFile>,
    usage: ProcFile,
    stat: ProcFile,
    names: &'static Names,
    last: Option<Missed>,
}

impl Limited {
    /// Those that `/proc/self` tells of.
    pub(super) fn of_this_host(proc: &Path) -> Limited {
        let text =
            |name: &str| fs::read_to_string(proc.join("self").join(name)).unwrap_or_default();
        Limited::of(&text("cgroup"), &text("mountinfo"))
    }

    pub(super) fn of(memberships: &str, mounts: &str) -> Limited {
        let tops = tops(memberships, mounts);
        let own = tops.iter().flat_map(|top| top.own.ancestors());
        let own = own.map(Path::to_owned).collect();
        let tops = tops.into_iter().map(|top| (top.point, top.names));
        Limited {
            tops: tops.collect(),
            own,
            ..Limited::default()
        }
    }

    /// Looks at those that are followed, and for others. To be called at `at` while something on the host is missed; `memory`
    /// is the host's.
    pub(super) fn look(&mut self, at: Duration, memory: Bytes) -> Missed {
        self.count(memory);
        self.walk(at, memory);
        self.missed
    }

    /// Those above come first: what one of them missed, those in it did.
    fn count(&mut self, memory: Bytes) {
        let (missed, mut counted) = (&mut self.missed, Vec::<PathBuf>::new());
        self.followed.retain_mut(|cgroup| {
            let Ok(now) = cgroup.missed() else {
                return false; // it is gone
            };
            let before = cgroup.last.replace(now);
            let is_in_one = counted.iter().any(|top| cgroup.folder.starts_with(top));
            if let Some(before) = before
                && !is_in_one
                && cgroup.is_at_its_limit(memory)
            {
                missed.files += now.files.saturating_sub(before.files);
                missed.swapped += now.swapped.saturating_sub(before.swapped);
                counted.push(cgroup.folder.clone());
            }
            true
        });
    }

    fn walk(&mut self, at: Duration, memory: Bytes) {
        let is_due = |began: Duration| at.saturating_sub(began) >= PASS_EVERY;
        if self.pass.ahead.is_empty() && self.pass.began.is_none_or(is_due) {
            self.pass = Pass {
                began: Some(at),
                ahead: self.tops.clone(),
                ..Pass::default()
            };
        }
        for _ in 0..STEP_MAX {
            let Some((folder, names)) = self.pass.ahead.pop() else {
                return;
            };
            self.pass.visit(folder, names, &self.own, memory);
            if self.pass.ahead.is_empty() {
                self.follow_found();
            }
        }
    }

    fn follow_found(&mut self) {
        let mut found = std::mem::take(&mut self.pass.found);
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        let known = std::mem::take(&mut self.followed);
        for cgroup in &mut found {
            let before = known.iter().find(|known| known.folder == cgroup.folder);
            cgroup.last = before.and_then(|known| known.last);
        }
        self.followed = found;
    }
}

impl Pass {
    fn visit(&mut self, folder: PathBuf, names: &'static Names, own: &[PathBuf], memory: Bytes) {
        self.visited += 1;
        let room = CGROUPS_MAX.saturating_sub(self.visited + self.ahead.len());
        let inside = fs::read_dir(&folder).into_iter().flatten().flatten();
        let inside = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        self.ahead
            .extend(inside.take(room).map(|entry| (entry.path(), names)));
        if self.found.len() == FOLLOWED_MAX || own.contains(&folder) {
            return;
        }
        // The top of a hierarchy has none of these files.
        if let Ok(mut cgroup) = Followed::open(folder, names)
            && cgroup.limit() < memory
        {
            self.found.push(cgroup);
        }
    }
}

impl Followed {
    fn open(folder: PathBuf, names: &'static Names) -> io::Result<Followed> {
        let limits = names.limits.iter();
        Ok(Followed {
            limits: limits
                .map(|name| ProcFile::open(folder.join(name)))
                .collect::<io::Result<_>>()?,
            usage: ProcFile::open(folder.join(names.usage))?,
            stat: ProcFile::open(folder.join("memory.stat"))?,
            names,
            last: None,
            folder,
        })
    }

    fn limit(&mut self) -> Bytes {
        let limits = self.limits.iter_mut();
        let least = limits.filter_map(|file| only_number(file.read().ok()?));
        Bytes(least.min().unwrap_or(u64::MAX))
    }

    fn is_at_its_limit(&mut self, memory: Bytes) -> bool {
        let limit = self.limit();
        let usage = self.usage.read().ok().and_then(only_number);
        let left = Bytes(limit.0 / SLACK_SHARE);
        limit < memory && usage.is_some_and(|usage| Bytes(usage) + left >= limit)
    }

    fn missed(&mut self) -> io::Result<Missed> {
        let names = self.names;
        let mut missed = Missed::default();
        for (key, count) in entries(self.stat.read()?) {
            if key == names.refaults {
                missed.files = count;
            } else if key == names.swap_refaults {
                missed.swapped = count;
            }
        }
        Ok(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Bytes = Bytes::gib(24);

    /// Recorded of a container of 96 MiB that reads 300 MiB again and again, under version 2.
    fn container(folder: &Path, usage: u64, files: u64) {
        fs::create_dir_all(folder).expect("made");
        let stat = format!(
            "anon 1220608\nfile 98885632\nkernel 495616\npgfault 2101\nworkingset_refault_anon 12\n\
             workingset_refault_file {files}\nworkingset_activate_file 0\n"
        );
        for (name, text) in [
            ("memory.max", "100663296\n"),
            ("memory.high", "max\n"),
            ("memory.current", &format!("{usage}\n")),
            ("memory.stat", &stat),
        ] {
            fs::write(folder.join(name), text).expect("written");
        }
    }

    fn unlimited(folder: &Path, files: u64) {
        container(folder, 0, files);
        fs::write(folder.join("memory.max"), "max\n").expect("written");
    }

    fn limited(top: &Path) -> Limited {
        let mounts = format!("30 24 0:26 / {} rw - cgroup2 cgroup2 rw\n", top.display());
        Limited::of("0::/system.slice/sublet.service\n", &mounts)
    }

    const FULL: u64 = 100_605_952;

    #[test]
    fn what_a_container_at_its_limit_misses_is_counted_and_nothing_else() {
        let top = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| top.path().join(name);
        container(&folder("full.slice"), FULL, 1000);
        container(&folder("full.slice/inner"), FULL, 600);
        container(&folder("half.slice"), FULL / 2, 1000);
        container(&folder("pods/pod"), FULL, 1000);
        unlimited(&folder("pods"), 5000);
        unlimited(&folder("free.slice"), 1000);
        container(&folder("system.slice"), FULL, 1000);
        container(&folder("system.slice/sublet.service"), FULL, 1000);
        let mut limited = limited(top.path());
        let at = Duration::from_secs;
        assert_eq!(limited.look(at(0), HOST), Missed::default());
        assert_eq!(limited.followed.len(), 4, "{:?}", limited.followed);
        assert_eq!(limited.look(at(1), HOST), Missed::default());
        for (name, files) in [
            ("full.slice/inner", 700),
            ("full.slice", 1100),
            ("half.slice", 9000),
            ("pods/pod", 1030),
            ("free.slice", 9000),
            ("system.slice", 9000),
            ("system.slice/sublet.service", 9000),
        ] {
            let usage = if name == "half.slice" { FULL / 2 } else { FULL };
            match name {
                "free.slice" => unlimited(&folder(name), files),
                _ => container(&folder(name), usage, files),
            }
        }
        let missed = limited.look(at(2), HOST);
        assert_eq!((missed.files, missed.swapped), (130, 0));
        fs::remove_dir_all(folder("full.slice")).expect("removed");
        assert_eq!(limited.look(at(3), HOST).files, 130);
    }

    #[test]
    fn a_look_goes_through_few_of_many() {
        let top = tempfile::tempdir().expect("a folder");
        (0..60).for_each(|n| container(&top.path().join(format!("c{n}")), FULL, 1));
        let mut limited = limited(top.path());
        let mut looks = 0;
        while limited.followed.is_empty() {
            limited.look(Duration::from_millis(20 * looks), HOST);
            looks += 1;
        }
        assert_eq!(looks, 4, "61 folders, 16 a look");
        assert_eq!(limited.followed.len(), 60);
    }
}
