//! Who keeps the stage's memfd open while no daemon runs: a process of its own, which does nothing else.
//!
//! It has the memfd as its standard input, and hands it to whoever of its own user connects to its socket. One byte
//! from there says what is wanted: `g` the memfd, `e` that it ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, MemfdFlags, SealFlags, fcntl_add_seals, flock, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::{Preface, Stage};

const GIVE: u8 = b'g';
const END: u8 = b'e';

/// The very program that runs, whatever became of its file: an upgrade replaces it under a running daemon.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How long a new keeper may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no stage.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The system refused.
    #[error("cannot keep pages of swap at {path}: {source}")]
    System {
        /// The keeper's socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another daemon has it.
    #[error(
        "the pages of swap at {0} are in use by another daemon: stop it, or give this one another --admin"
    )]
    InUse(PathBuf),
}

/// A stage's memfd, and its keeper's socket.
#[derive(Debug)]
pub(in super::super) struct Kept {
    socket: PathBuf,
    file: File,
}

impl Kept {
    /// The memfd that the keeper at `socket` has; where there is none, a new one with so many slots and a keeper for
    /// it, this program as `sublet keep SOCKET`.
    pub(in super::super) fn take(socket: &Path, slots: u32) -> Result<Kept, KeeperError> {
        let failed = |source| KeeperError::System {
            path: socket.to_owned(),
            source,
        };
        let fd = match ask_for(socket) {
            Ok(fd) => fd,
            Err(error) if is_nobody(&error) => make(socket, slots).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        };
        // Opened anew, so that the lock is this process's.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Kept {
                socket: socket.to_owned(),
                file,
            }),
            Err(_) => Err(KeeperError::InUse(socket.to_owned())),
        }
    }

    /// The memfd.
    pub(in super::super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Nothing is left to keep.
    pub(in super::super) fn end(self) {
        let told =
            UnixStream::connect(&self.socket).and_then(|mut keeper| keeper.write_all(&[END]));
        if let Err(error) = told {
            tracing::debug!(%error, "the keeper of swap pages is gone already");
        }
    }
}

fn is_nobody(error: &io::Error) -> bool {
    let nobody = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    nobody.contains(&error.kind())
}

/// Asks a keeper for what it keeps.
fn ask_for(socket: &Path) -> io::Result<OwnedFd> {
    let mut keeper = UnixStream::connect(socket)?;
    keeper.set_read_timeout(Some(PATIENCE))?;
    if rustix::net::sockopt::socket_peercred(&keeper)?.uid != rustix::process::geteuid() {
        return Err(io::Error::other("somebody else's process listens there"));
    }
    keeper.write_all(&[GIVE])?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        &keeper,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let rights = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let given = rights.ok_or_else(|| io::Error::other("the keeper of swap pages gave nothing"))?;
    match rustix::fs::fcntl_get_seals(&given)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
        true => Ok(given),
        false => Err(io::Error::other(
            "the keeper of swap pages gave something else",
        )),
    }
}

/// A new memfd, and a keeper for it.
fn make(socket: &Path, slots: u32) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = File::from(memfd_create("sublet-stage", flags)?);
    memfd.set_len(Stage::file_bytes(slots))?;
    fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW)?;
    Preface::write(&memfd, slots)?;
    // In a group of its own: what ends the daemon, be it Ctrl-C, does not end the keeper.
    Command::new(THIS_PROGRAM)
        .arg0("sublet")
        .arg("keep")
        .arg(socket)
        .stdin(Stdio::from(memfd.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let until = Instant::now() + PATIENCE;
    while let Err(error) = ask_for(socket) {
        if Instant::now() > until {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(memfd.into())
}

/// The keeper's life: `sublet keep SOCKET`, with the memfd as standard input.
///
/// # Errors
///
/// There is no standard input, or the socket is taken.
pub fn keep(socket: &Path) -> io::Result<()> {
    // It was started by a name that says nothing (`exe`).
    rustix::thread::set_name(c"sublet-keep")?;
    let kept = io::stdin().as_fd().try_clone_to_owned()?;
    if fs::symlink_metadata(socket).is_ok_and(|there| there.file_type().is_socket()) {
        fs::remove_file(socket)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(socket);
    rustix::process::umask(before);
    let listener = listener?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))?;
    for visitor in listener.incoming() {
        let ended = visitor.and_then(|visitor| attend(visitor, &kept));
        if matches!(ended, Ok(true)) {
            break;
        }
    }
    fs::remove_file(socket)
}

/// Does what a visitor wants. Says whether that was to end.
fn attend(mut visitor: UnixStream, kept: &OwnedFd) -> io::Result<bool> {
    visitor.set_read_timeout(Some(PATIENCE))?;
    let peer = rustix::net::sockopt::socket_peercred(&visitor)?;
    if peer.uid != rustix::process::geteuid() {
        return Ok(false);
    }
    let mut wanted = [0];
    visitor.read_exact(&mut wanted)?;
    if wanted == [END] {
        return Ok(true);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [kept.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(
        &visitor,
        &[IoSlice::new(&wanted)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(false)
}
