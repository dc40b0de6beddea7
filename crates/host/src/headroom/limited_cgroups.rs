//! Containers at a memory limit of their own. What such a container misses was taken by its limit and not by the host.
//! So it is subtracted from what the kernel counts for the whole host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_types::Bytes;

use super::cgroup::{CgroupFileNames, cgroup_roots};
use super::proc_file::{ProcReader, entries, only_number};

/// The most cgroups that are searched for limits.
const CGROUPS_MAX: usize = 4096;

/// The most cgroups with a limit that are followed. A host has tens of containers, seldom hundreds.
const FOLLOWED_MAX: usize = 256;

/// The cgroups that one poll reads, of the followed ones and of all, because this is the thread that gives memory back.
/// It keeps no file of theirs open.
const STEP_MAX: usize = 16;

/// The most swapping cgroups that each poll also reads, so that swapping does not count as theirs for longer than it
/// lasts.
const SWAPPING_MAX: usize = 16;

/// The time from one pass through all cgroups to the next.
const PASS_EVERY: Duration = Duration::from_secs(2);

/// A cgroup that has less than this part of its limit left is at its limit, because the kernel takes back a little more
/// than it must.
const SLACK_SHARE: u64 = 16;

/// What the cgroups at their limits missed, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CgroupRefaults {
    /// File pages.
    pub(super) files: u64,
    /// Pages that had been swapped out.
    pub(super) swapped: u64,
    /// Whether one of them missed swapped pages between the last two polls of it.
    pub(super) is_swapping: bool,
}

/// The host's cgroups with limits, without this process's own.
#[derive(Debug, Default)]
pub(super) struct LimitedCgroups {
    tops: Vec<(PathBuf, &'static CgroupFileNames)>,
    own: Vec<PathBuf>,
    pass: ScanPass,
    followed: Vec<LimitedCgroup>,
    round: CountingRound,
    missed: CgroupRefaults,
    reader: ProcReader,
}

/// A pass through the followed cgroups, a few at a time.
#[derive(Debug, Default)]
struct CountingRound {
    next: usize,
    /// Cgroups whose misses were counted. Their count includes what the cgroups in them missed.
    counted: Vec<PathBuf>,
}

/// A pass through all cgroups, a few at a time.
#[derive(Debug, Default)]
struct ScanPass {
    began: Option<Duration>,
    ahead: Vec<(PathBuf, &'static CgroupFileNames)>,
    visited: usize,
    found: Vec<LimitedCgroup>,
}

#[derive(Debug)]
struct LimitedCgroup {
    folder: PathBuf,
    names: &'static CgroupFileNames,
    /// All that it had missed when it was last at its limit.
    last: Option<CgroupRefaults>,
    /// Swapped pages that it had missed at the last poll, in or out of turn.
    swapped: Option<u64>,
    is_swapping: bool,
    /// It was counted in this poll, out of turn.
    is_counted_early: bool,
}

impl LimitedCgroups {
    /// The cgroups that `/proc/self` names.
    pub(super) fn of_this_host(proc: &Path) -> LimitedCgroups {
        let text =
            |name: &str| fs::read_to_string(proc.join("self").join(name)).unwrap_or_default();
        LimitedCgroups::of(&text("cgroup"), &text("mountinfo"))
    }

    pub(super) fn of(memberships: &str, mounts: &str) -> LimitedCgroups {
        let tops = cgroup_roots(memberships, mounts);
        let own = tops.iter().flat_map(|top| top.own.ancestors());
        let own = own.map(Path::to_owned).collect();
        let tops = tops.into_iter().map(|top| (top.point, top.names));
        LimitedCgroups {
            tops: tops.collect(),
            own,
            ..LimitedCgroups::default()
        }
    }

    /// Polls the followed cgroups, and searches for others. Call it at `at` while something on the host is missed.
    /// `memory` is the host's.
    pub(super) fn poll(&mut self, at: Duration, memory: Bytes) -> CgroupRefaults {
        self.count(memory);
        self.scan(at, memory);
        self.missed
    }

    fn count(&mut self, memory: Bytes) {
        self.followed
            .iter_mut()
            .for_each(|one| one.is_counted_early = false);
        let swapping = self.followed.iter_mut().filter(|one| one.is_swapping);
        for cgroup in swapping.take(SWAPPING_MAX) {
            // A cgroup that is gone is dropped in its turn.
            let now = cgroup.refaults_at_limit(memory, &mut self.reader);
            cgroup.record_swapped(now.ok().flatten());
            cgroup.is_counted_early = true;
        }
        for _ in 0..STEP_MAX.min(self.followed.len()) {
            if self.round.next >= self.followed.len() {
                self.round = CountingRound::default();
            }
            self.count_next(memory);
        }
        self.missed.is_swapping = self.followed.iter().any(|one| one.is_swapping);
    }

    /// Cgroups higher up come first.
    fn count_next(&mut self, memory: Bytes) {
        let CountingRound { next, counted } = &mut self.round;
        let Some(cgroup) = self.followed.get_mut(*next) else {
            return;
        };
        let Ok(now) = cgroup.refaults_at_limit(memory, &mut self.reader) else {
            self.followed.remove(*next); // it is gone
            return;
        };
        *next += 1;
        if !cgroup.is_counted_early {
            cgroup.record_swapped(now);
        }
        let before = std::mem::replace(&mut cgroup.last, now);
        let is_in_one = counted.iter().any(|top| cgroup.folder.starts_with(top));
        if let (Some(before), Some(now), false) = (before, now, is_in_one) {
            self.missed.files += now.files.saturating_sub(before.files);
            self.missed.swapped += now.swapped.saturating_sub(before.swapped);
            counted.push(cgroup.folder.clone());
        }
    }

    fn scan(&mut self, at: Duration, memory: Bytes) {
        let is_due = |began: Duration| at.saturating_sub(began) >= PASS_EVERY;
        if self.pass.ahead.is_empty() && self.pass.began.is_none_or(is_due) {
            self.pass = ScanPass {
                began: Some(at),
                ahead: self.tops.clone(),
                ..ScanPass::default()
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
        self.round = CountingRound::default();
    }
}

impl ScanPass {
    fn visit(
        &mut self,
        folder: PathBuf,
        names: &'static CgroupFileNames,
        own: &[PathBuf],
        memory: Bytes,
        reader: &mut ProcReader,
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
        let cgroup = LimitedCgroup {
            folder,
            names,
            last: None,
            swapped: None,
            is_swapping: false,
            is_counted_early: false,
        };
        // The top of a hierarchy has none of these files.
        if cgroup.limit(reader).is_ok_and(|limit| limit < memory) {
            self.found.push(cgroup);
        }
    }
}

impl LimitedCgroup {
    /// Records all that it has missed by now, if it is at its limit.
    fn record_swapped(&mut self, now: Option<CgroupRefaults>) {
        let now = now.map(|missed| missed.swapped);
        self.is_swapping = self.swapped.is_some() && now > self.swapped;
        self.swapped = now;
    }

    fn limit(&self, reader: &mut ProcReader) -> io::Result<Bytes> {
        let mut least = u64::MAX;
        for name in self.names.limits {
            let limit = only_number(reader.read(&self.folder.join(name))?);
            least = least.min(limit.unwrap_or(u64::MAX));
        }
        Ok(Bytes(least))
    }

    /// All that it has missed, if it is at its limit now.
    fn refaults_at_limit(
        &self,
        memory: Bytes,
        reader: &mut ProcReader,
    ) -> io::Result<Option<CgroupRefaults>> {
        let limit = self.limit(reader)?;
        let usage = only_number(reader.read(&self.folder.join(self.names.usage))?);
        let left = Bytes(limit.0 / SLACK_SHARE);
        let is_at_it = limit < memory && usage.is_some_and(|usage| Bytes(usage) + left >= limit);
        is_at_it.then(|| self.refaults(reader)).transpose()
    }

    fn refaults(&self, reader: &mut ProcReader) -> io::Result<CgroupRefaults> {
        let mut missed = CgroupRefaults::default();
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

    fn limited(top: &Path) -> LimitedCgroups {
        let mounts = format!("30 24 0:26 / {} rw - cgroup2 cgroup2 rw\n", top.display());
        LimitedCgroups::of("0::/system.slice/sublet.service\n", &mounts)
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
        assert_eq!(limited.poll(at(0), HOST), CgroupRefaults::default());
        assert_eq!(limited.followed.len(), 4, "{:?}", limited.followed);
        assert_eq!(limited.poll(at(1), HOST), CgroupRefaults::default());
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
        let missed = limited.poll(at(2), HOST);
        assert_eq!((missed.files, missed.swapped), (130, 0));
        fs::remove_dir_all(folder("full.slice")).expect("removed");
        assert_eq!(limited.poll(at(3), HOST).files, 130);
    }

    #[test]
    fn a_look_goes_through_few_of_many() {
        let top = tempfile::tempdir().expect("a folder");
        (0..60).for_each(|n| container(&top.path().join(format!("c{n}")), FULL, 1));
        let mut limited = limited(top.path());
        let mut looks = 0;
        while limited.followed.is_empty() {
            limited.poll(Duration::from_millis(20 * looks), HOST);
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
            let told = limited.poll(Duration::from_secs(look), HOST);
            assert_eq!(told.files, missed, "look {look}");
        }
    }

    /// One of many cgroups, so that its turn comes at one poll in four.
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
        let look = |limited: &mut LimitedCgroups, n: u64| {
            limited
                .poll(Duration::from_millis(20 * n), HOST)
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
        (0..8).for_each(|look| _ = limited.poll(at(look), HOST));
        assert_eq!(limited.followed.len(), 60);
        assert!(limited.followed.iter().all(|one| one.last.is_some()));
        assert_eq!(open_under(top.path()), 0);
        write(11);
        for (look, files) in [(8, 160), (9, 320), (10, 480), (11, 600), (12, 600)] {
            assert_eq!(limited.poll(at(look), HOST).files, files);
        }
    }
}
