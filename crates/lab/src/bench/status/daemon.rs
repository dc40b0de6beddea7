//! A daemon of many tenants, eight of which have a disk.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sublet_types::Bytes;

use super::super::folder::ScratchFolder;
use super::super::tested_server::{cpu, free_port};
use super::args::Args;
use super::error::StatusError;

/// Disks that fill the arena.
pub(super) const DISKS: usize = 8;

/// How long it may take until it listens, and how long to end before the bench kills it.
const START_MAX: Duration = Duration::from_secs(30);
const END_MAX: Duration = Duration::from_secs(10);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Memory beside the disks' pages: items of the tenant that gets, the index, what is kept free for eviction, and open
/// blocks.
const SPARE: Bytes = Bytes::mib(96);

/// A running daemon. It ends with its owner.
pub(super) struct ManyTenantDaemon {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl ManyTenantDaemon {
    /// Starts a daemon, and waits until it listens.
    pub(super) fn start(
        args: &Args,
        folder: &ScratchFolder,
    ) -> Result<ManyTenantDaemon, StatusError> {
        let sublet = args.ours.program()?;
        let address = (Ipv4Addr::LOCALHOST, free_port()?).into();
        for number in 0..DISKS {
            folder.image(&format!("disk-{number}.img"), args.disk_size())?;
        }
        let config = folder.join("status.toml");
        fs::write(&config, config_of(args, folder.path(), address))?;
        // The daemon is tied to the bench: it ends however the bench ends.
        let child = Command::new(std::env::current_exe()?)
            .args(["bench-tether", "--"])
            .arg(sublet)
            .args(["serve", "--config"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("stderr"))?)
            .spawn()?;
        let mut daemon = ManyTenantDaemon {
            child,
            address,
            folder: folder.path().to_owned(),
        };
        daemon.await_sockets()?;
        Ok(daemon)
    }

    fn await_sockets(&mut self) -> Result<(), StatusError> {
        let until = Instant::now() + START_MAX;
        while !self.listens() {
            let has_ended = self.child.try_wait()?.is_some();
            if has_ended || Instant::now() > until {
                let stderr = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
                return Err(StatusError::NotListening(stderr.trim().to_owned()));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn listens(&self) -> bool {
        let disks = (0..DISKS).all(|number| self.vhost_user(number).exists());
        disks && self.metrics().exists()
    }

    /// The address of the tenant whose items are got.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket of the metrics.
    pub(super) fn metrics(&self) -> PathBuf {
        self.folder.join("metrics.sock")
    }

    /// The socket of a disk.
    pub(super) fn vhost_user(&self, number: usize) -> PathBuf {
        self.folder.join(format!("disk-{number}.vhost"))
    }

    /// CPU time that it has used.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        cpu(self.child.id())
    }
}

impl Drop for ManyTenantDaemon {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + END_MAX;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The configuration. Tenants `guest-0` to `guest-7` exist by their disks. `web` is the tenant whose items are got.
fn config_of(args: &Args, folder: &Path, address: SocketAddr) -> String {
    let folder = folder.display();
    let ceiling = args.arena.0 + SPARE.0;
    let mut config = format!(
        "[daemon]\nthreads = 1\nstate = \"{folder}\"\n[admin]\nsocket = \"{folder}/admin.sock\"\n\
         [metrics]\nlisten = \"unix:{folder}/metrics.sock\"\n[arena]\nceiling = \"{ceiling}B\"\n\
         [tenants.web]\nfloor = \"16MiB\"\nlisten = [\"tcp:{address}\"]\n"
    );
    for number in 0..DISKS {
        // A write to a String cannot fail.
        let _ = write!(
            config,
            "[disks.disk-{number}]\nkind = \"disk\"\ntenant = \"guest-{number}\"\nfill = \"miss\"\n\
             backing = \"{folder}/disk-{number}.img\"\n\
             listen = [\"unix:{folder}/disk-{number}.nbd\", \"vhost-user:{folder}/disk-{number}.vhost\"]\n"
        );
    }
    for number in DISKS + 1..args.tenants as usize {
        let _ = write!(
            config,
            "[tenants.idle-{number}]\nlisten = [\"unix:{folder}/idle-{number}.sock\"]\n"
        );
    }
    config
}
