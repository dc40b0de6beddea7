//! The file system of a served disk, mounted on this host. nbdfuse shows the disk as a file. A loop device that
//! bypasses the page cache makes a block device of the file, and the kernel mounts that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::super::folder::ScratchFolder;
use super::super::host_change_guard::HostChangeGuard;
use super::disk_server::DiskServer;
use super::program::output_of;

/// How long nbdfuse may take until the file is there, and how long a file system may be busy at its end.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The name of the file that shows a disk under nbdfuse.
const SHOWN_AS: &str = "nbd";

/// Programs that must be on the PATH, and their Debian packages.
pub(super) const PROGRAMS: [(&str, &str); 6] = [
    ("nbdfuse", "libnbd-bin"),
    ("fusermount3", "fuse3"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// A disk's file system in a folder. It is unmounted when this is dropped.
pub(super) struct MountedDisk {
    /// Where it is mounted.
    pub(super) place: PathBuf,
    // In the order in which they end.
    _file_system: HostChangeGuard,
    _shown: HostChangeGuard,
}

impl MountedDisk {
    /// Mounts what `disk_server` serves inside `folder`.
    pub(super) fn on(served: &DiskServer, folder: &ScratchFolder) -> io::Result<MountedDisk> {
        let (shown, place) = (folder.join("shown"), folder.join("mounted"));
        let uri = served.uri();
        let shown_keeper =
            HostChangeGuard::start(&["shown".as_ref(), uri.as_ref(), shown.as_os_str()])?;
        let file = shown.join(SHOWN_AS);
        let file_system =
            HostChangeGuard::start(&["mounted".as_ref(), file.as_os_str(), place.as_os_str()])?;
        Ok(MountedDisk {
            place,
            _file_system: file_system,
            _shown: shown_keeper,
        })
    }
}

/// Shows the disk at `uri` as a file in `folder` while `work` runs.
pub(in crate::bench) fn shown_while(
    uri: &str,
    folder: &Path,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    fs::create_dir(folder)?;
    let mut fuse = Command::new("nbdfuse")
        .arg(folder)
        .arg(uri)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let until = Instant::now() + PATIENCE;
    while !folder.join(SHOWN_AS).exists() {
        if let Some(status) = fuse.try_wait()? {
            return Err(io::Error::other(format!("nbdfuse ended with {status}")));
        }
        if Instant::now() > until {
            fuse.kill()?;
            fuse.wait()?;
            return Err(io::Error::other("nbdfuse does not show the disk"));
        }
        thread::sleep(PAUSE);
    }
    let worked = work();
    let ended = until_it_works(Command::new("fusermount3").arg("-u").arg(folder));
    worked.and(ended).and(fuse.wait().map(drop))
}

/// Mounts the file system in `file` at `place` while `work` runs.
pub(in crate::bench) fn mounted_while(
    file: &Path,
    place: &Path,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    fs::create_dir(place)?;
    let device = output_of(
        Command::new("losetup")
            .args(["--direct-io=on", "--find", "--show"])
            .arg(file),
    )?;
    let device = Path::new(device.trim());
    // Without this, reads would also write the times of reading.
    let mounting = output_of(
        Command::new("mount")
            .args(["-o", "noatime"])
            .args([device, place]),
    );
    let worked = mounting.and_then(|_| {
        let worked = passes_by_page_cache(device).and_then(|()| work());
        worked.and(until_it_works(Command::new("umount").arg(place)))
    });
    worked.and(output_of(Command::new("losetup").arg("--detach").arg(device)).map(drop))
}

/// Fails unless the device bypasses the page cache. Otherwise the host's page cache would answer instead of the disk.
fn passes_by_page_cache(device: &Path) -> io::Result<()> {
    let name = device.file_name().unwrap_or_default();
    let says = Path::new("/sys/block").join(name).join("loop/dio");
    match fs::read_to_string(says)?.trim() {
        "1" => Ok(()),
        _ => Err(io::Error::other(
            "the loop device does not do direct I/O on nbdfuse's file",
        )),
    }
}

/// Calls a program again for a while, because it may find something busy.
fn until_it_works(command: &mut Command) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match output_of(command) {
            Err(_) if Instant::now() < until => thread::sleep(PAUSE),
            ended => return ended.map(drop),
        }
    }
}
