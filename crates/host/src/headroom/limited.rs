//! Containers at a memory limit of their own. What such a one misses, its limit takes from it and not the host: it is taken
//! off what the kernel counts for the whole host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_types::Bytes;

use super::cgroup::{Names, tops};
use super::proc_file::{Reader, entries, only_number};

/// Cgroups that are looked through for limits.
const CGROUPS_MAX: usize = 4096;

/// Cgroups with a limit that are followed. A host has tens of containers, seldom hundreds.
const FOLLOWED_MAX: usize = 256;

/// Cgroups that one look goes through, of those that are followed and of all: this is the thread that gives memory back. No
/// file of theirs stays open.
const STEP_MAX: usize = 16;

/// Cgroups that swap and are looked at besides, at each look: nobody's swapping is theirs for longer than it lasts.
const SWAPPING_MAX: usize = 16;

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
    /// Whether one of them missed such between the last two looks at it.
    pub(super) is_swapping: bool,
}

/// The host's cgroups with limits, but for this process's own.
#[derive(Debug, Default)]
pub(super) struct Limited {
    tops: Vec<(PathBuf, &'static Names)>,
    own: Vec<PathBuf>,
    pass: Pass,
    followed: Vec<Followed>,
    round: Round,
    missed: Missed,
    reader: Reader,
}

/// A way through those that are followed, a few at a time.
#[derive(Debug, Default)]
struct Round {
    next: usize,
    /// Those whose misses were counted: what one of them missed, those in it did.
    counted: Vec<PathBuf>,
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
    names: &'static Names,
    /// What it had missed in all when it was at its limit last.
    last: Option<Missed>,
    /// Swapped pages that it had missed when it was looked at last, in or out of turn.
    swapped: Option<u64>,
    is_swapping: bool,
    /// In this look, out of turn.
    is_heard: bool,
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

    fn count(&mut self, memory: Bytes) {
        self.followed
            .iter_mut()
            .for_each(|one| one.is_heard = false);
        let swapping = self.followed.iter_mut().filter(|one| one.is_swapping);
        for cgroup in swapping.take(SWAPPING_MAX) {
            // One that is gone is left in its turn.
            let now = cgroup.missed_at_its_limit(memory, &mut self.reader);
            cgroup.hear_swapped(now.ok().flatten());
            cgroup.is_heard = true;
        }
        for _ in 0..STEP_MAX.min(self.followed.len()) {
            if self.round.next >= self.followed.len() {
                self.round = Round::default();
            }
            self.count_next(memory);
        }
        self.missed.is_swapping = self.followed.iter().any(|one| one.is_swapping);
    }

    /// Those above come first.
    fn count_next(&mut self, memory: Bytes) {
        let Round { next, counted } = &mut self.round;
        let Some(cgroup) = self.followed.get_mut(*next) else {
            return;
        };
        let Ok(now) = cgroup.missed_at_its_limit(memory, &mut self.reader) else {
            self.followed.remove(*next); // it is gone
            return;
        };
        *next += 1;
        if !cgroup.is_heard {
            cgroup.hear_swapped(now);
        }
        let before = std::mem::replace(&mut cgroup.last, now);
        let is_in_one = counted.iter().any(|top| cgroup.folder.starts_with(top));
        if let (Some(before), Some(now), false) = (before, now, is_in_one) {
            self.missed.files += now.files.saturating_sub(before.files);
            self.missed.swapped += now.swapped.saturating_sub(before.swapped);
            counted.push(cgroup.folder.clone());
        }
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
            self.pass
                .visit(folder, names, &self.own, memory, &mut self.reader);
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
            if let Some(known) = before {
                cgroup.last = known.last;
                (cgroup.swapped, cgroup.is_swapping) = (known.swapped, known.is_swapping);
            }
        }
        self.followed = found;
        self.round = Round::default();
    }
}

impl Pass {
    fn visit(
        &mut self,
        folder: PathBuf,
        names: &'static Names,
        own: &[PathBuf],
        memory: Bytes,
        reader: &mut Reader,
    ) {
        self.visited += 1;
        let room = CGROUPS_MAX.saturating_sub(self.visited + self.ahead.len());
        let inside = fs::read_dir(&folder).into_iter().flatten().flatten();
        let inside = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        self.ahead
            .extend(inside.take(room).map(|entry| (entry.path(), names)));
        if self.found.len() == FOLLOWED_MAX || own.contains(&folder) {
            return;
        }
        let cgroup = Followed {
            folder,
            names,
            last: None,
            swapped: None,
            is_swapping: false,
            is_heard: false,
        };
        // The top of a hierarchy has none of these files.
        if cgroup.limit(reader).is_ok_and(|limit| limit < memory) {
            self.found.push(cgroup);
        }
    }
}

impl Followed {
    /// What it has missed in all by now, where it is at its limit.
    fn hear_swapped(&mut self, now: Option<Missed>) {
        let now = now.map(|missed| missed.swapped);
        self.is_swapping = self.swapped.is_some() && now > self.swapped;
        self.swapped = now;
    }

    fn limit(&self, reader: &mut Reader) -> io::Result<Bytes> {
        let mut least = u64::MAX;
        for name in self.names.limits {
            let limit = only_number(reader.read(&self.folder.join(name))?);
            least = least.min(limit.unwrap_or(u64::MAX));
        }
        Ok(Bytes(least))
    }

    /// What it has missed in all, if it is at its limit now.
    fn missed_at_its_limit(
        &self,
        memory: Bytes,
        reader: &mut Reader,
    ) -> io::Result<Option<Missed>> {
        let limit = self.limit(reader)?;
        let usage = only_number(reader.read(&self.folder.join(self.names.usage))?);
        let left = Bytes(limit.0 / SLACK_SHARE);
        let is_at_it = limit < memory && usage.is_some_and(|usage| Bytes(usage) + left >= limit);
        is_at_it.then(|| self.missed(reader)).transpose()
    }

    fn missed(&self, reader: &mut Reader) -> io::Result<Missed> {
        let mut missed = Missed::default();
        for (key, count) in entries(reader.read(&self.folder.join("memory.stat"))?) {
            if self.names.refaults.contains(&key) {
                missed.files = count;
            } else if key == self.names.swap_refaults {
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

    #[test]
    fn a_kernel_before_5_9_has_another_word_for_what_is_missed() {
        let top = tempfile::tempdir().expect("a folder");
        let own = top.path().join("old");
        let mut limited = limited(top.path());
        for (look, files, missed) in [(0, 1, 0), (1, 5, 0), (2, 47, 42)] {
            container(&own, FULL, 0);
            let stat = format!("inactive_file 4096\nworkingset_refault {files}\n");
            fs::write(own.join("memory.stat"), stat).expect("written");
            let told = limited.look(Duration::from_secs(look), HOST);
            assert_eq!(told.files, missed, "look {look}");
        }
    }

    /// One of many, so that its turn comes at one look in four.
    #[test]
    fn one_of_many_that_swaps_is_known_at_each_look_until_it_stops() {
        let top = tempfile::tempdir().expect("a folder");
        (0..60).for_each(|n| container(&top.path().join(format!("c{n}")), FULL, 1));
        let stat = top.path().join("c33/memory.stat");
        let swap = |count: u64| {
            fs::write(&stat, format!("workingset_refault_anon {count}\n")).expect("written");
        };
        swap(0);
        let mut limited = limited(top.path());
        let look = |limited: &mut Limited, n: u64| {
            limited
                .look(Duration::from_millis(20 * n), HOST)
                .is_swapping
        };
        (0..8).for_each(|n| assert!(!look(&mut limited, n), "nobody swaps yet"));
        let mut known = 0;
        for n in 8..28 {
            swap(n);
            let is_swapping = look(&mut limited, n);
            assert!(is_swapping || known == 0, "look {n}");
            known += u64::from(is_swapping);
        }
        assert!(known >= 16, "found in its turn: {known}");
        assert!(!look(&mut limited, 28), "it stopped");
    }

    /// Descriptors of this process that lie under a folder.
    fn open_under(top: &Path) -> usize {
        let all = fs::read_dir("/proc/self/fd").expect("a folder").flatten();
        let to = all.filter_map(|entry| fs::read_link(entry.path()).ok());
        to.filter(|path| path.starts_with(top)).count()
    }

    #[test]
    fn those_that_are_followed_are_counted_a_few_a_look_and_none_stays_open() {
        let top = tempfile::tempdir().expect("a folder");
        let write = |files| {
            (0..60).for_each(|n| container(&top.path().join(format!("c{n}")), FULL, files));
        };
        write(1);
        let mut limited = limited(top.path());
        let at = |look: u64| Duration::from_millis(20 * look);
        (0..8).for_each(|look| _ = limited.look(at(look), HOST));
        assert_eq!(limited.followed.len(), 60);
        assert!(limited.followed.iter().all(|one| one.last.is_some()));
        assert_eq!(open_under(top.path()), 0);
        write(11);
        for (look, files) in [(8, 160), (9, 320), (10, 480), (11, 600), (12, 600)] {
            assert_eq!(limited.look(at(look), HOST).files, files);
        }
    }
}
