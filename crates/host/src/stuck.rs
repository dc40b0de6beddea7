//! Finds the process that has a file, a lock or a socket that is wanted. Above all these are processes that were killed
//! and cannot end, because one of their threads waits in the kernel for a file. Everything that such a process has open
//! stays, including its sockets and locks.
//!
//! Processes are found by what they hold, because a program's name is whatever its owner gave it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use sublet_frontends::listeners::{Endpoint, ListenError};

/// The most threads and files that a message names.
const NAMED_MAX: usize = 3;

/// SIGKILL in a mask of signals.
const KILLED: u64 = 1 << 8;

/// The flag in `/proc/PID/fdinfo` of a file that bypasses the page cache (`O_DIRECT`), as backings do.
const DIRECT: u64 = 0o40000;

/// A process that was told to end and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckProcess {
    pid: u32,
    /// Names of threads, each with what it waits in.
    waits: Vec<(String, String)>,
    files: Vec<PathBuf>,
}

impl fmt::Display for StuckProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits: Vec<String> = self
            .waits
            .iter()
            .map(|(thread, place)| format!("{thread} in {place}"))
            .collect();
        let files: Vec<String> = self
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let (what, whose) = match files.len() {
            0 => ("a file".to_owned(), "that file's"),
            1 => (files[0].clone(), "its"),
            _ => (format!("one of {}", files.join(", ")), "its"),
        };
        write!(
            f,
            "process {} was told to end and cannot: it waits in the kernel (state D: {}) for {what}, and only the return of {whose} file system or device, or a reboot, ends it; \
             a daemon with another state folder and other sockets starts beside it",
            self.pid,
            waits.join(", ")
        )
    }
}

/// A thread, as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadStatus {
    name: String,
    waits: bool,
    is_over: bool,
    was_killed: bool,
}

impl ThreadStatus {
    /// From `/proc/PID/task/TID/status`.
    fn parsed(status: &str) -> Option<ThreadStatus> {
        let field = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(str::trim)
        };
        let is_pending = |name| {
            let mask = field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
            mask.is_some_and(|mask| mask & KILLED != 0)
        };
        let state = field("State")?;
        Some(ThreadStatus {
            name: field("Name")?.to_owned(),
            waits: state.starts_with('D'),
            is_over: state.starts_with(['Z', 'X']),
            was_killed: is_pending("SigPnd") || is_pending("ShdPnd"),
        })
    }
}

/// Returns whether a process of these threads was told to end and cannot.
fn cannot_end(threads: &[ThreadStatus]) -> bool {
    let was_told = threads
        .iter()
        .any(|thread| thread.is_over || thread.was_killed);
    was_told && threads.iter().any(|thread| thread.waits)
}

/// Returns whether the process with that number was told to end and cannot.
pub(crate) fn process(pid: u32) -> Option<StuckProcess> {
    process_in(Path::new("/proc"), pid)
}

fn process_in(proc: &Path, pid: u32) -> Option<StuckProcess> {
    let folder = proc.join(pid.to_string());
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let tasks = fs::read_dir(folder.join("task")).ok()?.flatten();
    let threads: Vec<(PathBuf, ThreadStatus)> = tasks
        .map(|task| task.path())
        .filter_map(|task| {
            let thread = ThreadStatus::parsed(&text(task.join("status")))?;
            Some((task, thread))
        })
        .collect();
    let all: Vec<ThreadStatus> = threads.iter().map(|(_, thread)| thread.clone()).collect();
    if !cannot_end(&all) {
        return None;
    }
    let waiting = threads.iter().filter(|(_, thread)| thread.waits);
    let waits = waiting.clone().take(NAMED_MAX).map(|(task, thread)| {
        let place = text(task.join("wchan"));
        (thread.name.clone(), place.trim().to_owned())
    });
    // The process itself has nothing open any more.
    let files = waiting.clone().map(|(task, _)| open_past_the_cache(task));
    Some(StuckProcess {
        pid,
        waits: waits.collect(),
        files: files.max_by_key(Vec::len).unwrap_or_default(),
    })
}

/// Files that a thread's process has open without the page cache. Asks their file systems nothing.
fn open_past_the_cache(task: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(task.join("fdinfo")).into_iter().flatten();
    let is_direct = |info: &str| {
        let mut lines = info.lines();
        let flags = lines.find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & DIRECT != 0)
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|info| is_direct(&info)))
        .filter_map(|entry| fs::read_link(task.join("fd").join(entry.file_name())).ok())
        .collect();
    files.sort();
    files.dedup();
    files.truncate(NAMED_MAX);
    files
}

/// The process that listens at a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketHolder {
    /// A process that was told to end and cannot.
    Stuck(StuckProcess),
    /// A process that is alive: its number and its name.
    Lives(u32, String),
    /// This very process.
    ThisProcess,
}

impl fmt::Display for SocketHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketHolder::Stuck(stuck) => write!(f, "{stuck}"),
            SocketHolder::Lives(pid, name) => write!(f, "process {pid} ({name}) has it"),
            SocketHolder::ThisProcess => f.write_str("this daemon has it"),
        }
    }
}

/// The end of a message about a socket that is taken.
pub(crate) fn describe_holder(by: Option<&SocketHolder>) -> String {
    by.map(|by| format!(": {by}")).unwrap_or_default()
}

/// The process that listens where a listener wants to, if that is a Unix socket.
pub(crate) fn holder_of_address(error: &ListenError) -> Option<Box<SocketHolder>> {
    match error {
        ListenError::Taken(Endpoint::Unix { path, .. }) => socket_holder(path).map(Box::new),
        _ => None,
    }
}

/// The process that listens at a Unix socket, as far as this process may see that.
pub(crate) fn socket_holder(path: &Path) -> Option<SocketHolder> {
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    let sockets: Vec<PathBuf> = sockets_at(&sockets, path)
        .map(|inode| PathBuf::from(format!("socket:[{inode}]")))
        .collect();
    let has_one = |pid: &u32| sockets.iter().any(|socket| has_open(*pid, socket));
    let pid = processes().find(has_one)?;
    let name = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(match process(pid) {
        Some(stuck) => SocketHolder::Stuck(stuck),
        None if pid == std::process::id() => SocketHolder::ThisProcess,
        None => SocketHolder::Lives(pid, name().trim().to_owned()),
    })
}

/// The process that listens at a Unix socket, if it was told to end and cannot.
pub(crate) fn listener(path: &Path) -> Option<StuckProcess> {
    match socket_holder(path)? {
        SocketHolder::Stuck(stuck) => Some(stuck),
        SocketHolder::Lives(..) | SocketHolder::ThisProcess => None,
    }
}

/// The numbers of the sockets that are bound to a path, from `/proc/net/unix`.
fn sockets_at<'a>(sockets: &'a str, path: &'a Path) -> impl Iterator<Item = &'a str> {
    sockets.lines().filter_map(move |line| {
        let mut fields = line.split_whitespace().skip(6);
        let (inode, at) = (fields.next()?, fields.next()?);
        (Path::new(at) == path).then_some(inode)
    })
}

/// The process that has a file open, if it was told to end and cannot. Asks the file system nothing.
pub(crate) fn holder(file: &Path) -> Option<StuckProcess> {
    let mut all = processes().filter_map(process);
    all.find(|stuck| has_open(stuck.pid, file))
}

fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|process| process.file_name().to_str()?.parse().ok())
}

fn has_open(pid: u32, file: &Path) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let fds = |task: PathBuf| fs::read_dir(task.join("fd")).into_iter().flatten();
    let mut open = tasks
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|task| fds(task.path()))
        .flatten();
    open.any(|fd| fs::read_link(fd.path()).is_ok_and(|leads| leads == file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn status(name: &str, state: &str, pending: &str) -> String {
        format!(
            "Name:\t{name}\nUmask:\t0022\nState:\t{state}\nSigPnd:\t{pending}\nShdPnd:\t0000000000000000\n"
        )
    }

    const NONE: &str = "0000000000000000";
    const KILL: &str = "0000000000000100";

    fn threads(all: &[(&str, &str, &str)]) -> Vec<ThreadStatus> {
        let parsed = all
            .iter()
            .map(|(name, state, pending)| ThreadStatus::parsed(&status(name, state, pending)));
        parsed.map(|thread| thread.expect("a thread")).collect()
    }

    #[test]
    fn one_that_was_killed_and_waits_in_the_kernel_cannot_end() {
        let (zombie, waits) = (
            ("sublet", "Z (zombie)", NONE),
            ("disk", "D (disk sleep)", NONE),
        );
        assert!(cannot_end(&threads(&[zombie, waits])));
        let killed = ("iou-wrk-9", "D (disk sleep)", KILL);
        assert!(cannot_end(&threads(&[killed])));
        let sleeps = ("sublet", "S (sleeping)", NONE);
        assert!(!cannot_end(&threads(&[sleeps, waits])), "nobody killed it");
        assert!(!cannot_end(&threads(&[zombie])), "it has ended");
        assert_eq!(ThreadStatus::parsed("half\na file"), None);
    }

    #[test]
    fn it_is_said_which_process_waits_where_and_for_what() {
        let proc = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = proc.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        // Whatever its program is called.
        write("7/task/7/status", &status("lender", "Z (zombie)", NONE));
        write(
            "7/task/9/status",
            &status("iou-wrk-8", "D (disk sleep)", KILL),
        );
        write("7/task/9/wchan", "percpu_rwsem_wait");
        for (fd, flags, file) in [
            (3, "0100002", "/state/live.lock"),
            (4, "02140002", "/vm/db.img"),
        ] {
            write(
                &format!("7/task/9/fdinfo/{fd}"),
                &format!("pos:\t0\nflags:\t{flags}\n"),
            );
            let folder = proc.path().join("7/task/9/fd");
            fs::create_dir_all(&folder).expect("made");
            symlink(file, folder.join(fd.to_string())).expect("linked");
        }
        let said = process_in(proc.path(), 7)
            .expect("it cannot end")
            .to_string();
        for words in [
            "process 7 was told to end and cannot",
            "state D: iou-wrk-8 in percpu_rwsem_wait",
            "for /vm/db.img, and only the return of its file system",
            "another state folder and other sockets",
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert_eq!(process_in(proc.path(), 6), None, "nobody");
        assert_eq!(process(std::process::id()), None);
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
             ffff8: 00000002 00000000 00010000 0001 01 4711 /run/a.sock\n\
             ffff9: 00000002 00000000 00010000 0001 01 4712\n";
        let found = |path: &'static str| sockets_at(sockets, Path::new(path)).collect::<Vec<_>>();
        assert_eq!(
            (found("/run/a.sock"), found("/run/b.sock")),
            (vec!["4711"], vec![])
        );
    }
    #[test]
    fn who_listens_is_found_by_the_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        assert_eq!(socket_holder(&path), None);
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        assert_eq!(socket_holder(&path), Some(SocketHolder::ThisProcess));
        assert_eq!(listener(&path), None, "it lives");
    }
}
