//! Servers of a disk, each a process of its own that ends with its owner.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sublet_types::Bytes;

use super::error::BlockError;

/// How long a server may take until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// How long it may take to end before it is killed.
const END_MAX: Duration = Duration::from_secs(10);

/// A folder's name begins so; a process and a time follow.
const FOLDER: &str = "sublet-bench-block-";

/// How it begins until it is locked: nobody clears such a folder away.
const UNLOCKED: &str = "sublet-bench-unlocked-";

/// A folder in memory, for sockets and backings; it goes with its owner.
pub(super) struct Folder {
    path: PathBuf,
    /// Locked for as long as the owner lives, in whichever namespace its number counts.
    _lock: File,
}

impl Folder {
    pub(super) fn new() -> io::Result<Folder> {
        let shared = Path::new("/dev/shm");
        let root = match shared.is_dir() {
            true => shared.to_owned(),
            false => std::env::temp_dir(),
        };
        clear_away(&root);
        Folder::new_in(&root)
    }

    fn new_in(root: &Path) -> io::Result<Folder> {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let nanos = since.map_or(0, |since| since.as_nanos());
        let owner = format!("{}-{nanos}", std::process::id());
        let unlocked = root.join(format!("{UNLOCKED}{owner}"));
        fs::create_dir(&unlocked)?;
        let lock = File::open(&unlocked)?;
        lock.lock()?;
        let path = root.join(format!("{FOLDER}{owner}"));
        fs::rename(&unlocked, &path)?;
        Ok(Folder { path, _lock: lock })
    }

    /// A path in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file of random bytes, so that nothing in it is a hole.
    pub(super) fn image(&self, name: &str, size: Bytes) -> io::Result<PathBuf> {
        let path = self.join(name);
        let mut file = File::create(&path)?;
        let chunk: Vec<u8> = (0..1 << 20)
            .map(|n: u32| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8)
            .collect();
        for _ in 0..size.0 >> 20 {
            file.write_all(&chunk)?;
        }
        Ok(path)
    }
}

/// Removes folders of benches that were killed: they would fill the memory.
fn clear_away(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_folder) && is_left(&entry.path()) {
            // Another bench may be at it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a bench calls a folder so.
fn is_folder(name: &str) -> bool {
    let owner = name.strip_prefix(FOLDER).and_then(|o| o.split_once('-'));
    let is_number = |part: &str| part.parse::<u128>().is_ok();
    owner.is_some_and(|(process, nanos)| is_number(process) && is_number(nanos))
}

/// Whether nobody has its lock.
fn is_left(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| folder.try_lock().is_ok())
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A disk that is served.
pub(super) struct Served {
    pub(super) program: &'static str,
    child: Child,
    /// Its NBD socket.
    pub(super) nbd: Option<PathBuf>,
    /// Its vhost-user socket.
    pub(super) vhost_user: Option<PathBuf>,
    /// Its export's name.
    pub(super) export: &'static str,
}

impl Served {
    /// Sublet, with `memory` for the pages of the disk `image`.
    pub(super) fn ours(
        sublet: &Path,
        folder: &Folder,
        image: &Path,
        slow: Option<&str>,
        memory: Bytes,
    ) -> Result<Served, BlockError> {
        let (nbd, shared) = (folder.join("ours.sock"), folder.join("ours.vhost"));
        let slow = slow.map_or(String::new(), |slow| format!("slow = \"{slow}\"\n"));
        // Beside its pages: the item index, what is kept free for eviction, and blocks that are open.
        let ceiling = memory.0 + (64 << 20);
        let config = format!(
            "[daemon]\nthreads = 1\nstate = \"{folder}\"\n[admin]\nsocket = \"{folder}/admin.sock\"\n\
             [arena]\nceiling = \"{ceiling}B\"\n[tenants.bench]\nceiling = \"{memory}B\"\nlisten = [\"unix:{folder}/items.sock\"]\n\
             [disks.bench]\nkind = \"disk\"\ntenant = \"bench\"\nbacking = \"{image}\"\nqueues = 1\n{slow}\
             listen = [\"unix:{nbd}\", \"vhost-user:{shared}\"]\n",
            folder = folder.path.display(),
            image = image.display(),
            nbd = nbd.display(),
            shared = shared.display(),
            memory = memory.0.next_multiple_of(2 << 20) + (4 << 20),
        );
        let file = folder.join("ours.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(sublet);
        command.arg("serve").arg("--config").arg(&file);
        Served::start(
            "sublet",
            "sublet",
            command,
            Some(nbd),
            Some(shared),
            "bench",
        )
    }

    /// nbdkit's memory plugin.
    pub(super) fn nbdkit(folder: &Folder, size: Bytes) -> Result<Served, BlockError> {
        let nbd = folder.join("nbdkit.sock");
        let mut command = Command::new("nbdkit");
        command.arg("-f").arg("-U").arg(&nbd);
        command.arg("memory").arg(size.0.to_string());
        Served::start("nbdkit", "nbdkit", command, Some(nbd), None, "")
    }

    /// qemu-nbd on a file, which others may serve besides: nobody writes.
    pub(super) fn qemu_nbd(folder: &Folder, image: &Path) -> Result<Served, BlockError> {
        let nbd = folder.join("qemu-nbd.sock");
        let mut command = Command::new("qemu-nbd");
        command.arg("-r").arg("-t").arg("-k").arg(&nbd);
        command.arg("--image-opts").arg(format!(
            "driver=raw,file.driver=file,file.locking=off,file.filename={}",
            image.display()
        ));
        Served::start("qemu-nbd", "qemu-utils", command, Some(nbd), None, "")
    }

    /// qemu-storage-daemon on a file in memory.
    pub(super) fn qemu(folder: &Folder, size: Bytes) -> Result<Served, BlockError> {
        let image = folder.image("qemu.img", size)?;
        let shared = folder.join("qemu.vhost");
        let mut command = Command::new("qemu-storage-daemon");
        command.arg("--blockdev").arg(format!(
            "driver=file,filename={},node-name=f",
            image.display()
        ));
        command.arg("--export").arg(format!(
            "type=vhost-user-blk,id=e,node-name=f,addr.type=unix,addr.path={},writable=on",
            shared.display()
        ));
        let package = "qemu-system-common";
        Served::start(
            "qemu-storage-daemon",
            package,
            command,
            None,
            Some(shared),
            "",
        )
    }

    fn start(
        program: &'static str,
        package: &'static str,
        mut command: Command,
        nbd: Option<PathBuf>,
        vhost_user: Option<PathBuf>,
        export: &'static str,
    ) -> Result<Served, BlockError> {
        let failed = |why: String| BlockError::Start {
            program,
            why,
            package,
        };
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn();
        let mut served = Served {
            program,
            child: child.map_err(|error| failed(error.to_string()))?,
            nbd,
            vhost_user,
            export,
        };
        let until = Instant::now() + START_MAX;
        while !served.listens() {
            let ended = served.child.try_wait()?;
            if let Some(status) = ended {
                return Err(failed(format!("it ended with {status}")));
            }
            if Instant::now() > until {
                return Err(failed("it does not listen".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(served)
    }

    fn listens(&self) -> bool {
        let mut sockets = self.nbd.iter().chain(&self.vhost_user);
        sockets.all(|socket| socket.exists())
    }

    /// How an NBD client calls it.
    pub(super) fn uri(&self) -> String {
        let socket = self.nbd.as_ref().map(|path| path.display().to_string());
        let socket = socket.unwrap_or_default();
        format!("nbd+unix:///{}?socket={socket}", self.export)
    }

    /// CPU time that it has used, with that of threads that have ended: to a hundredth of a second.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // What follows the name, which may have spaces; user and system time are fields 14 and 15.
        let fields = text.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(
            ticks * 1000 / rustix::param::clock_ticks_per_second(),
        ))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + END_MAX;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_nobody_locks_are_cleared_away() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        let place = |name: &str| root.path().join(name);
        let alive = Folder::new_in(root.path())?;
        // Its process lives, or another of the same number elsewhere: what counts is the lock.
        let left = format!("{FOLDER}{}-7", std::process::id());
        let others = [
            "sublet",
            "sublet-bench-block-",
            "sublet-bench-block-4194305",
            "sublet-bench-block-x-7",
            "sublet-bench-unlocked-1-7",
        ];
        for name in others.iter().chain([&left.as_str()]) {
            fs::create_dir(place(name))?;
            fs::write(place(name).join("image"), "x")?;
        }
        clear_away(root.path());
        assert!(!place(&left).exists());
        assert!(alive.path.exists());
        assert!(others.iter().all(|name| place(name).exists()));
        let path = alive.path.clone();
        drop(alive);
        assert!(!path.exists());
        Ok(())
    }
}
