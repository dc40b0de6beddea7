//! Tests the figures of this very host, beside a container that thrashes at a limit of its own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;

use super::host_figures::{ProcHost, ReadHost};
use super::proc_file::{ProcFile, entries};

/// What the container may hold, and what it reads again and again.
const LIMIT: u64 = 48 << 20;
const FILE: u64 = 150 << 20;

/// The least pages that the host must have missed again.
const ENOUGH: u64 = 30_000;

/// Far enough apart for a cgroup to be found.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A container. It ends when this is dropped, and its cgroup after it.
struct Container {
    program: Child,
    _file: NamedTempFile,
    _cgroup: Cgroup,
}

/// A cgroup. It is removed when this is dropped and no process is in it.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None` if this user may make no cgroup, or there is no version 1.
    fn make() -> Option<Cgroup> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("sublet-test-{}-{number}", std::process::id());
        let cgroup = Cgroup(PathBuf::from("/sys/fs/cgroup/memory").join(name));
        fs::create_dir(&cgroup.0).ok()?;
        Some(cgroup)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Container {
    /// Starts a container, if this user may and there is version 1.
    fn start() -> Option<Container> {
        Container::start_in(Cgroup::make()?, "sh")
    }

    fn start_in(cgroup: Cgroup, shell: &str) -> Option<Container> {
        let limit = cgroup.0.join("memory.limit_in_bytes");
        fs::write(limit, LIMIT.to_string()).ok()?;
        let file = NamedTempFile::new().ok()?;
        fs::write(file.path(), vec![7; FILE as usize]).ok()?;
        // What stays in memory would belong to its writer, and no cgroup would miss it.
        file.as_file().sync_all().ok()?;
        fadvise(file.as_file(), 0, None, Advice::DontNeed).ok()?;
        let script = "echo $$ >\"$1/cgroup.procs\"; while :; do cat \"$2\" >/dev/null; done";
        let program = Command::new(shell)
            .args(["-c", script, "sh"])
            .args([&cgroup.0, file.path()])
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Some(Container {
            program: program.ok()?,
            _file: file,
            _cgroup: cgroup,
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Its children are in the cgroup as well.
        let group = Pid::from_child(&self.program);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.program.wait();
    }
}

#[test]
fn a_container_that_does_not_start_leaves_no_cgroup() {
    let Some(cgroup) = Cgroup::make() else {
        eprintln!("skipped: this user may make no memory cgroup of version 1");
        return;
    };
    let folder = cgroup.0.clone();
    assert!(Container::start_in(cgroup, "/no/such/shell").is_none());
    assert!(!folder.exists());
}

fn refaults_of_the_host() -> u64 {
    let mut file = ProcFile::open("/proc/vmstat").expect("a Linux");
    let text = file.read().expect("read");
    let key = b"workingset_refault_file";
    entries(text)
        .find(|(name, _)| name == key)
        .map_or(0, |(_, count)| count)
}

#[test]
fn what_a_container_at_its_own_limit_misses_is_not_the_hosts() {
    let Some(_container) = Container::start() else {
        eprintln!("skipped: this user may make no memory cgroup of version 1");
        return;
    };
    let mut host = ProcHost::open().expect("opened");
    let (began, until) = (Instant::now(), Instant::now() + Duration::from_secs(60));
    let mut look = || {
        std::thread::sleep(LOOK_EVERY);
        host.read(began.elapsed()).expect("read").refaults
    };
    // Until the cgroup is found and at its limit, everything counts as the host's.
    let (mut told, mut counted) = (look(), refaults_of_the_host());
    loop {
        let (now_told, now_counted) = (look(), refaults_of_the_host());
        let is_theirs = now_counted - counted > 10 * (now_told - told);
        if is_theirs && now_counted > counted + 1000 {
            break;
        }
        assert!(Instant::now() < until, "it is never found");
        (told, counted) = (now_told, now_counted);
    }
    // The kernel adds up a cgroup's counters seconds late. Until then what the cgroup misses may count as the host's.
    let (told, counted) = (look(), refaults_of_the_host());
    loop {
        let (now_told, now_counted) = (look(), refaults_of_the_host());
        let (told, counted) = (now_told - told, now_counted - counted);
        if counted >= ENOUGH && told * 5 < counted {
            break;
        }
        assert!(
            Instant::now() < until,
            "{told} of {counted} are told as the host's"
        );
    }
}
