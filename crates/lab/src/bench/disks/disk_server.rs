//! Servers of a disk. Each is a separate process that ends with its owner.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sublet_types::Bytes;

use super::super::folder::ScratchFolder;
use super::error::BlockError;

/// The name of our daemon's admin socket in its folder.
const ADMIN_SOCKET: &str = "admin.sock";

/// How long a server may take until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// How long it may take to end before the bench kills it.
const END_MAX: Duration = Duration::from_secs(10);

/// A running server of a disk.
pub(in crate::bench) struct DiskServer {
    pub(super) program: &'static str,
    child: Child,
    /// Where it serves NBD.
    nbd: Option<NbdAddress>,
    /// Its vhost-user socket.
    pub(super) vhost_user: Option<PathBuf>,
    /// Its export's name.
    pub(super) export: &'static str,
    /// Its admin socket, if it is ours.
    pub(in crate::bench) admin: Option<PathBuf>,
}

/// Where a disk is served over NBD.
#[derive(Clone, Debug)]
enum NbdAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// The disk's memory in our daemon.
#[derive(Clone, Copy, Debug)]
enum DiskMemory {
    /// Pages of this amount. The arena may grow beyond it.
    Pages(Bytes),
    /// An arena of this amount, with all that the store needs in it.
    Arena(Bytes),
}

impl DiskServer {
    /// Starts Sublet with `memory` for the pages of the disk `image`.
    pub(super) fn ours(
        sublet: &Path,
        folder: &ScratchFolder,
        image: &Path,
        slow: Option<&str>,
        memory: Bytes,
    ) -> Result<DiskServer, BlockError> {
        let memory = DiskMemory::Pages(memory);
        DiskServer::daemon(sublet, folder, image, slow, memory, "")
    }

    /// Starts Sublet with an arena of this amount, and more tables of its config.
    pub(in crate::bench) fn ours_in_arena(
        sublet: &Path,
        folder: &ScratchFolder,
        image: &Path,
        slow: Option<&str>,
        arena: Bytes,
        tables: &str,
    ) -> Result<DiskServer, BlockError> {
        let memory = DiskMemory::Arena(arena);
        DiskServer::daemon(sublet, folder, image, slow, memory, tables)
    }

    fn daemon(
        sublet: &Path,
        folder: &ScratchFolder,
        image: &Path,
        slow: Option<&str>,
        memory: DiskMemory,
        tables: &str,
    ) -> Result<DiskServer, BlockError> {
        let (nbd, shared) = (folder.join("ours.sock"), folder.join("ours.vhost"));
        let admin = folder.join(ADMIN_SOCKET);
        let slow = slow.map_or(String::new(), |slow| format!("slow = \"{slow}\"\n"));
        // Beside its pages the store needs the item index, what it keeps free for eviction, and open blocks.
        let (arena, tenant) = match memory {
            DiskMemory::Pages(pages) => (
                pages.0 + (64 << 20),
                format!(
                    "ceiling = \"{}B\"\n",
                    pages.0.next_multiple_of(2 << 20) + (4 << 20)
                ),
            ),
            DiskMemory::Arena(arena) => (arena.0, String::new()),
        };
        let config = format!(
            "[daemon]\nthreads = 1\nstate = \"{folder}\"\n[admin]\nsocket = \"{admin}\"\n\
             [arena]\nceiling = \"{arena}B\"\n[tenants.bench]\n{tenant}listen = [\"unix:{folder}/items.sock\"]\n\
             [disks.bench]\nkind = \"disk\"\ntenant = \"bench\"\nbacking = \"{image}\"\nqueues = 1\n{slow}\
             listen = [\"unix:{nbd}\", \"vhost-user:{shared}\"]\n{tables}",
            admin = admin.display(),
            folder = folder.path().display(),
            image = image.display(),
            nbd = nbd.display(),
            shared = shared.display(),
        );
        let file = folder.join("ours.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(sublet);
        command.arg("serve").arg("--config").arg(&file);
        let nbd = Some(NbdAddress::Unix(nbd));
        let started = DiskServer::start("sublet", "sublet", command, nbd, Some(shared), "bench");
        let mut served = started?;
        served.admin = Some(admin);
        Ok(served)
    }

    /// Starts nbdkit's memory plugin.
    pub(super) fn nbdkit(folder: &ScratchFolder, size: Bytes) -> Result<DiskServer, BlockError> {
        let nbd = folder.join("nbdkit.sock");
        let mut command = Command::new("nbdkit");
        command.arg("-f").arg("-U").arg(&nbd);
        command.arg("memory").arg(size.0.to_string());
        let nbd = Some(NbdAddress::Unix(nbd));
        DiskServer::start("nbdkit", "nbdkit", command, nbd, None, "")
    }

    /// Starts nbdkit's memory plugin in a network namespace, at a TCP address that the calling thread reaches.
    pub(in crate::bench) fn nbdkit_in(
        namespace: &str,
        address: SocketAddr,
        size: Bytes,
    ) -> Result<DiskServer, BlockError> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "nbdkit"]);
        command.args(["-f", "-i", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string()]);
        command.arg("memory").arg(size.0.to_string());
        let nbd = Some(NbdAddress::Tcp(address));
        DiskServer::start("nbdkit", "nbdkit", command, nbd, None, "")
    }

    /// Starts qemu-nbd on a file that others may serve too: nobody writes.
    pub(super) fn qemu_nbd(folder: &ScratchFolder, image: &Path) -> Result<DiskServer, BlockError> {
        let nbd = folder.join("qemu-nbd.sock");
        let mut command = Command::new("qemu-nbd");
        command.arg("-r").arg("-t").arg("-k").arg(&nbd);
        command.arg("--image-opts").arg(format!(
            "driver=raw,file.driver=file,file.locking=off,file.filename={}",
            image.display()
        ));
        let nbd = Some(NbdAddress::Unix(nbd));
        DiskServer::start("qemu-nbd", "qemu-utils", command, nbd, None, "")
    }

    /// Starts qemu-storage-daemon on a file in memory.
    pub(super) fn qemu(folder: &ScratchFolder, size: Bytes) -> Result<DiskServer, BlockError> {
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
        DiskServer::start(
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
        nbd: Option<NbdAddress>,
        vhost_user: Option<PathBuf>,
        export: &'static str,
    ) -> Result<DiskServer, BlockError> {
        let failed = |why: String| BlockError::Start {
            program,
            why,
            package,
        };
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn();
        let mut served = DiskServer {
            program,
            child: child.map_err(|error| failed(error.to_string()))?,
            nbd,
            vhost_user,
            export,
            admin: None,
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
        let nbd = match &self.nbd {
            Some(NbdAddress::Unix(path)) => path.exists(),
            Some(NbdAddress::Tcp(address)) => TcpStream::connect(address).is_ok(),
            None => true,
        };
        nbd && self.vhost_user.iter().all(|socket| socket.exists())
    }

    /// The address of the disk for an NBD client.
    pub(in crate::bench) fn uri(&self) -> String {
        match &self.nbd {
            Some(NbdAddress::Unix(path)) => {
                format!("nbd+unix:///{}?socket={}", self.export, path.display())
            }
            Some(NbdAddress::Tcp(address)) => format!("nbd://{address}/{}", self.export),
            None => String::new(),
        }
    }

    /// The CPU time that it has used, including threads that have ended, to a hundredth of a second.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The fields after the name, which may have spaces. User and system time are fields 14 and 15.
        let fields = text.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(
            ticks * 1000 / rustix::param::clock_ticks_per_second(),
        ))
    }
}

impl Drop for DiskServer {
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
