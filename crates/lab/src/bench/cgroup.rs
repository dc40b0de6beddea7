//! A separate cgroup for a bench, with a limit on its memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sublet_types::Bytes;

/// How long it may take until the cgroup is empty, and how often that is checked.
const EMPTY_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A cgroup. It is removed when it is dropped.
pub(super) struct BenchCgroup {
    folder: PathBuf,
    /// The cgroup of this process.
    home: PathBuf,
    /// The file that counts how often the limit was reached, and the word before the number.
    at_limit: (&'static str, &'static str),
}

/// A way to make a cgroup: where cgroups are, the file of the limit, and [`BenchCgroup::at_limit`].
struct CgroupVersion {
    top: &'static str,
    limit: &'static str,
    at_limit: (&'static str, &'static str),
    /// In `/proc/self/cgroup`.
    controllers: &'static str,
}

const KINDS: [CgroupVersion; 3] = [
    CgroupVersion {
        top: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        at_limit: ("memory.failcnt", ""),
        controllers: "memory",
    },
    CgroupVersion {
        top: "/sys/fs/cgroup",
        limit: "memory.max",
        at_limit: ("memory.events", "max"),
        controllers: "",
    },
    CgroupVersion {
        top: "/sys/fs/cgroup/unified",
        limit: "memory.max",
        at_limit: ("memory.events", "max"),
        controllers: "",
    },
];

impl BenchCgroup {
    /// Makes a cgroup that may hold `limit`. `name` distinguishes it from others of this bench.
    pub(super) fn make(name: &str, limit: Bytes) -> io::Result<BenchCgroup> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for kind in &KINDS {
            match BenchCgroup::make_of(kind, name, limit) {
                Ok(group) => return Ok(group),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn make_of(kind: &CgroupVersion, name: &str, limit: Bytes) -> io::Result<BenchCgroup> {
        let memberships = fs::read_to_string("/proc/self/cgroup")?;
        let home = memberships
            .lines()
            .find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                (controllers == kind.controllers).then(|| path.trim_start_matches('/'))
            })
            .ok_or(io::ErrorKind::NotFound)?;
        let folder =
            Path::new(kind.top).join(format!("sublet-bench-{}-{name}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = BenchCgroup {
            folder,
            home: Path::new(kind.top).join(home),
            at_limit: kind.at_limit,
        };
        fs::write(group.folder.join(kind.limit), limit.0.to_string())?;
        Ok(group)
    }

    /// Runs `start` in the group, and whatever it starts stays there. This process leaves the group again.
    pub(super) fn within<R>(&self, start: impl FnOnce() -> R) -> Result<R, CgroupError> {
        enter(&self.folder)?;
        let started = start();
        enter(&self.home)?;
        Ok(started)
    }

    /// Its folder.
    #[cfg(test)]
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How often the limit caused a refusal or a wait.
    pub(super) fn times_at_limit(&self) -> u64 {
        let (file, word) = self.at_limit;
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
            .unwrap_or(0)
    }
}

/// A killed process stays in the cgroup until the kernel has taken it apart.
impl Drop for BenchCgroup {
    fn drop(&mut self) {
        let until = Instant::now() + EMPTY_MAX;
        while fs::remove_dir(&self.folder).is_err()
            && self.folder.exists()
            && Instant::now() < until
        {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Why a process could not be put into a cgroup.
#[derive(Debug, thiserror::Error)]
#[error("cannot move into {}: {source}", folder.display())]
pub(crate) struct CgroupError {
    folder: PathBuf,
    source: io::Error,
}

fn enter(folder: &Path) -> Result<(), CgroupError> {
    let this = std::process::id().to_string();
    fs::write(folder.join("cgroup.procs"), this).map_err(|source| CgroupError {
        folder: folder.to_owned(),
        source,
    })
}
