//! Daemons that were killed and cannot end: a thread of theirs waits in the kernel for a file, and all that the process has
//! open stays, its sockets and locks among them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Threads and files that are named, at the most.
const NAMED_MAX: usize = 3;

/// SIGKILL in a mask of signals.
const KILLED: u64 = 1 << 8;

/// A file that was opened past the page cache (`O_DIRECT`), as backings are, in the flags of `/proc/PID/fdinfo`.
const DIRECT: u64 = 0o40000;

/// A daemon that was told to end and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pid: u32,
    /// Names of threads, each with what it waits in.
    waits: Vec<(String, String)>,
    files: Vec<PathBuf>,
}

impl fmt::Display for Stuck {
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
struct Thread {
    name: String,
    waits: bool,
    is_over: bool,
    was_killed: bool,
}

impl Thread {
    /// From `/proc/PID/task/TID/status`.
    fn parsed(status: &str) -> Option<Thread> {
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
        Some(Thread {
            name: field("Name")?.to_owned(),
            waits: state.starts_with('D'),
            is_over: state.starts_with(['Z', 'X']),
            was_killed: is_pending("SigPnd") || is_pending("ShdPnd"),
        })
    }
}

/// Whether a process of these threads was told to end and cannot.
fn cannot_end(threads: &[Thread]) -> bool {
    let was_told = threads
        .iter()
        .any(|thread| thread.is_over || thread.was_killed);
    was_told && threads.iter().any(|thread| thread.waits)
}

/// Whether a daemon with that number was told to end and cannot.
pub(crate) fn process(pid: u32) -> Option<Stuck> {
    process_in(Path::new("/proc"), pid)
}

fn process_in(proc: &Path, pid: u32) -> Option<Stuck> {
    let folder = proc.join(pid.to_string());
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    if Thread::parsed(&text(folder.join("status")))?.name != "sublet" {
        return None;
    }
    let tasks = fs::read_dir(folder.join("task")).ok()?.flatten();
    let threads: Vec<(PathBuf, Thread)> = tasks
        .map(|task| task.path())
        .filter_map(|task| {
            let thread = Thread::parsed(&text(task.join("status")))?;
            Some((task, thread))
        })
        .collect();
    let all: Vec<Thread> = threads.iter().map(|(_, thread)| thread.clone()).collect();
    if !cannot_end(&all) {
        return None;
    }
    let waiting = threads.iter().filter(|(_, thread)| thread.waits);
    let waits = waiting.clone().take(NAMED_MAX).map(|(task, thread)| {
        let place = text(task.join("wchan"));
        (thread.name.clone(), place.trim().to_owned())
    });
    // Of the process itself nothing is open any more.
    let files = waiting.clone().map(|(task, _)| open_past_the_cache(task));
    Some(Stuck {
        pid,
        waits: waits.collect(),
        files: files.max_by_key(Vec::len).unwrap_or_default(),
    })
}

/// Files that a thread's process has open past the page cache: asks their file systems nothing.
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

/// The daemon that listens at a Unix socket, if it was told to end and cannot.
pub(crate) fn listener(path: &Path) -> Option<Stuck> {
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    let mut inodes = sockets_at(&sockets, path);
    inodes.find_map(|inode| holder(Path::new(&format!("socket:[{inode}]"))))
}

/// The numbers of the sockets that are bound to a path, from `/proc/net/unix`.
fn sockets_at<'a>(sockets: &'a str, path: &'a Path) -> impl Iterator<Item = &'a str> {
    sockets.lines().filter_map(move |line| {
        let mut fields = line.split_whitespace().skip(6);
        let (inode, at) = (fields.next()?, fields.next()?);
        (Path::new(at) == path).then_some(inode)
    })
}

/// The daemon that has a file open, if it was told to end and cannot. Its file system is asked nothing.
pub(crate) fn holder(file: &Path) -> Option<Stuck> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let mut all = numbers.filter_map(process);
    all.find(|stuck| has_open(stuck.pid, file))
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

    fn threads(all: &[(&str, &str, &str)]) -> Vec<Thread> {
        let parsed = all
            .iter()
            .map(|(name, state, pending)| Thread::parsed(&status(name, state, pending)));
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
        assert_eq!(Thread::parsed("half\na file"), None);
    }

    #[test]
    fn it_is_said_which_process_waits_where_and_for_what() {
        let proc = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = proc.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("7/status", &status("sublet", "Z (zombie)", NONE));
        write("7/task/7/status", &status("sublet", "Z (zombie)", NONE));
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
        write("8/status", &status("nfsd", "Z (zombie)", NONE));
        assert_eq!(process_in(proc.path(), 8), None, "no daemon");
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
}
