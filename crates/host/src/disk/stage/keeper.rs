//! Who keeps the stage's memfd open while no daemon runs: a process of its own, which does nothing else.
//!
//! It has the memfd as its standard input, and hands it to whoever of its own user connects to its socket. One byte
//! from there says what is wanted: `g` the memfd, `e` that it ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags, fcntl_add_seals, flock, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, getrlimit, pidfd_open,
    pidfd_send_signal, waitid,
};
use signal_hook::consts::SIGHUP;
use sublet_types::Bytes;

use super::super::bell::Bell;
use super::head::{Preface, file_bytes};

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
    /// Its file would be larger than this process may make one.
    #[error(
        "cannot keep pages of swap at {path}: no file may be larger than {limit} (RLIMIT_FSIZE: `ulimit -f`, as a service LimitFSIZE=), and the stage takes {needed}; raise the limit or lower `dirty_max`"
    )]
    FileSize {
        /// The keeper's socket.
        path: PathBuf,
        /// The limit.
        limit: Bytes,
        /// The stage's size.
        needed: Bytes,
    },
    /// Another daemon has it.
    #[error(
        "the pages of swap at {0} are in use by another daemon: stop it, or give this one another --admin"
    )]
    InUse(PathBuf),
}

impl KeeperError {
    /// The system refused, at the keeper's socket.
    pub(in super::super) fn at(socket: &Path, source: io::Error) -> KeeperError {
        let path = socket.to_owned();
        KeeperError::System { path, source }
    }

    /// There is no new stage with so many slots.
    fn made(socket: &Path, slots: u32, source: io::Error) -> KeeperError {
        let limit = getrlimit(Resource::Fsize).current;
        match (source.kind(), limit) {
            (io::ErrorKind::FileTooLarge, Some(limit)) => KeeperError::FileSize {
                path: socket.to_owned(),
                limit: Bytes(limit),
                needed: Bytes(file_bytes(slots)),
            },
            _ => KeeperError::at(socket, source),
        }
    }
}

/// How often it is looked whether something has come to be.
const LOOK: Duration = Duration::from_millis(5);

/// How often it is looked whether a keeper is found, and how long to wait before another try at one.
const PAUSE: Duration = Duration::from_secs(1);

/// A stage's memfd, and its keeper's socket.
#[derive(Debug)]
pub(in super::super) struct Kept {
    socket: PathBuf,
    file: File,
    orders: Arc<Orders>,
    /// Who sees to it that there is always a keeper.
    follower: Option<JoinHandle<()>>,
}

/// What is wanted of a keeper, and how it goes.
#[derive(Debug)]
struct Orders {
    /// One that ends is not followed by another.
    is_last: AtomicBool,
    /// It is to end.
    is_over: AtomicBool,
    /// No later daemon would find the pages: there is no keeper, or another's is in its place.
    is_lost: Arc<AtomicBool>,
    /// Has the follower see what is wanted.
    bell: Bell,
}

impl Orders {
    fn new() -> io::Result<Orders> {
        Ok(Orders {
            is_last: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_lost: Arc::default(),
            bell: Bell::new()?,
        })
    }

    fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn note_lost(&self, is_lost: bool) {
        self.is_lost.store(is_lost, Ordering::Release);
    }
}

/// The keeper stays, for the next daemon.
impl Drop for Kept {
    fn drop(&mut self) {
        self.orders.is_last.store(true, Ordering::Release);
        self.orders.bell.ring();
    }
}

/// A keeper that answered.
struct Keeper {
    memfd: OwnedFd,
    pid: Pid,
    process: OwnedFd,
}

impl Kept {
    /// The memfd that the keeper at `socket` has; where there is none, a new one with so many slots and a keeper for
    /// it, this program as `sublet keep SOCKET`.
    pub(in super::super) fn take(socket: &Path, slots: u32) -> Result<Kept, KeeperError> {
        match Kept::find(socket)? {
            Some(kept) => Ok(kept),
            None => {
                let keeper = make(socket, slots);
                let made = |source| KeeperError::made(socket, slots, source);
                Kept::of(socket, keeper.map_err(made)?)
            }
        }
    }

    /// The memfd that the keeper at `socket` has, if there is one.
    pub(in super::super) fn find(socket: &Path) -> Result<Option<Kept>, KeeperError> {
        match ask_for(socket) {
            Ok(keeper) => Kept::of(socket, keeper).map(Some),
            Err(error) if is_nobody(&error) => Ok(None),
            Err(source) => Err(KeeperError::at(socket, source)),
        }
    }

    /// Takes over what a keeper has, and sees to it that there is always one.
    fn of(socket: &Path, keeper: Keeper) -> Result<Kept, KeeperError> {
        let failed = |source| KeeperError::at(socket, source);
        // Opened anew, so that the lock is this process's.
        let path = format!("/proc/self/fd/{}", keeper.memfd.as_raw_fd());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(KeeperError::InUse(socket.to_owned()));
        }
        let mut kept = Kept {
            socket: socket.to_owned(),
            file,
            orders: Arc::new(Orders::new().map_err(failed)?),
            follower: None,
        };
        let (socket, orders) = (socket.to_owned(), Arc::clone(&kept.orders));
        let follower = std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || follow(&socket, keeper, &orders))
            .map_err(failed)?;
        kept.follower = Some(follower);
        Ok(kept)
    }

    /// The memfd.
    pub(in super::super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Whether no later daemon would find the pages, from now on.
    pub(in super::super) fn is_lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.orders.is_lost)
    }

    /// Waits, not for long, until the next daemon can find the pages. Says whether it can.
    pub(in super::super) fn is_found(&self) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.orders.is_lost.load(Ordering::Acquire) || !self.socket.exists() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Nothing is left to keep. The socket is free when this returns, unless it is another's.
    pub(in super::super) fn end(mut self) {
        self.orders.is_over.store(true, Ordering::Release);
        self.orders.bell.ring();
        let Some(follower) = self.follower.take() else {
            return;
        };
        let until = Instant::now() + 3 * PATIENCE;
        while !follower.is_finished() {
            if Instant::now() > until {
                tracing::error!(socket = %self.socket.display(), "the keeper of swap pages does not end, and is left alone: it has none any more");
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn is_nobody(error: &io::Error) -> bool {
    let nobody = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    nobody.contains(&error.kind())
}

/// What befell a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Ended,
    /// Nobody finds it: its socket's file was removed.
    Hidden,
    /// Another process's socket is in the place of its own.
    Displaced,
    /// Something is wanted.
    Called,
}

/// Sees to it that there is always a keeper that the next daemon finds, until that is not wanted any more. One that is ended
/// is followed by another, which has the same pages; so is one whose socket was removed.
fn follow(socket: &Path, mut keeper: Keeper, orders: &Orders) {
    let mut is_told = false;
    loop {
        let seen = match see(socket, &keeper, orders) {
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(%error, "nobody sees whether the keeper of swap pages lives");
                orders.note_lost(true);
                return;
            }
        };
        if orders.is_over() {
            return end(socket, &keeper);
        }
        if orders.is_last() {
            return;
        }
        match seen {
            Seen::Called => continue,
            Seen::Displaced => {
                orders.note_lost(true);
                if !std::mem::replace(&mut is_told, true) {
                    tracing::error!(socket = %socket.display(), "another process listens where the keeper of swap pages did: no later start finds them, and swap is written through");
                }
                let _ = orders.bell.wait(Some(PAUSE));
                continue;
            }
            Seen::Ended => {
                tracing::error!(pid = %keeper.pid, "the keeper of swap pages was ended; another takes its place");
            }
            Seen::Hidden => {
                tracing::error!(pid = %keeper.pid, socket = %socket.display(), "the socket of the keeper of swap pages was removed; another keeper takes its place");
            }
        }
        orders.note_lost(true);
        match start(socket, &keeper.memfd) {
            Ok(next) => {
                let before = std::mem::replace(&mut keeper, next);
                is_told = false;
                orders.note_lost(false);
                kill(&before);
            }
            Err(error) => {
                tracing::error!(%error, "nobody keeps pages of swap while this daemon is away, and swap is written through: there is no keeper for them");
                let _ = orders.bell.wait(Some(PAUSE));
            }
        }
    }
}

/// Waits until something befell a keeper, or is wanted.
fn see(socket: &Path, keeper: &Keeper, orders: &Orders) -> io::Result<Seen> {
    let mine = fs::symlink_metadata(socket).ok().map(|file| file.ino());
    loop {
        if has_ended(keeper, Some(&orders.bell))? {
            reap(keeper);
            return Ok(Seen::Ended);
        }
        if orders.is_over() || orders.is_last() {
            return Ok(Seen::Called);
        }
        match fs::symlink_metadata(socket) {
            Ok(file) if Some(file.ino()) == mine => {}
            Ok(_) => return Ok(Seen::Displaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Seen::Hidden),
            Err(_) => {}
        }
    }
}

/// Asks a keeper to end, and waits until its socket is gone.
fn ask_to_end(socket: &Path) -> io::Result<()> {
    let mut keeper = UnixStream::connect(socket)?;
    keeper.set_read_timeout(Some(PATIENCE))?;
    keeper.write_all(&[END])?;
    keeper.read(&mut [0]).map(|_| ())
}

/// Waits a moment for a keeper's end, or until the bell rings. Says whether it has ended.
fn has_ended(keeper: &Keeper, bell: Option<&Bell>) -> io::Result<bool> {
    let pause = Timespec::try_from(PAUSE).ok();
    let ended = PollFd::new(&keeper.process, PollFlags::IN);
    let rung = bell.map(|bell| PollFd::new(bell, PollFlags::IN));
    let (count, rung) = (1 + rung.iter().count(), rung.unwrap_or(ended.clone()));
    let mut fds = [ended, rung];
    match poll(&mut fds[..count], pause.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(!fds[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// Somebody else's child is not ours to wait for.
fn reap(keeper: &Keeper) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let _ = waitid(WaitId::PidFd(keeper.process.as_fd()), how);
}

/// Has a keeper end: by its word where it is found at its socket, which is removed then, and else by the kernel's.
fn end(socket: &Path, keeper: &Keeper) {
    let asked = ask_for(socket).and_then(|found| match found.pid == keeper.pid {
        true => ask_to_end(socket),
        false => Err(io::Error::other("another process listens there")),
    });
    if let Err(error) = asked {
        tracing::warn!(pid = %keeper.pid, socket = %socket.display(), %error, "the keeper of swap pages is not found at its socket, and is ended without it");
    }
    kill(keeper);
}

/// A keeper that has ended already stays so.
fn kill(keeper: &Keeper) {
    let _ = pidfd_send_signal(&keeper.process, Signal::KILL);
    let until = Instant::now() + PATIENCE;
    while !has_ended(keeper, None).unwrap_or(true) && Instant::now() < until {}
    reap(keeper);
}

/// Asks a keeper for what it keeps.
fn ask_for(socket: &Path) -> io::Result<Keeper> {
    let mut keeper = UnixStream::connect(socket)?;
    keeper.set_read_timeout(Some(PATIENCE))?;
    let peer = rustix::net::sockopt::socket_peercred(&keeper)?;
    if peer.uid != rustix::process::geteuid() {
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
        true => Ok(Keeper {
            memfd: given,
            pid: peer.pid,
            process: pidfd_open(peer.pid, PidfdFlags::empty())?,
        }),
        false => Err(io::Error::other(
            "the keeper of swap pages gave something else",
        )),
    }
}

/// A new memfd, and a keeper for it.
fn make(socket: &Path, slots: u32) -> io::Result<Keeper> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = File::from(memfd_create("sublet-stage", flags)?);
    memfd.set_len(file_bytes(slots))?;
    fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW)?;
    Preface::write(&memfd, slots)?;
    start(socket, &OwnedFd::from(memfd))
}

/// Starts a keeper for a memfd, and waits until it answers. One that does not is gone when this returns.
fn start(socket: &Path, memfd: &OwnedFd) -> io::Result<Keeper> {
    // In a group of its own: what ends the daemon, be it Ctrl-C, does not end the keeper.
    let mut child = Command::new(THIS_PROGRAM)
        .arg0("sublet")
        .arg("keep")
        .arg(socket)
        .stdin(Stdio::from(memfd.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let answer = answer_of(socket, &mut child);
    match answer {
        Ok(keeper) if keeper.pid == Pid::from_child(&child) => Ok(keeper),
        answer => {
            let _ = child.kill();
            let _ = child.wait();
            answer.and_then(|_| Err(io::Error::other("another process listens there")))
        }
    }
}

/// Waits until a keeper answers; not for one that has ended.
fn answer_of(socket: &Path, child: &mut Child) -> io::Result<Keeper> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask_for(socket) {
            Ok(keeper) => return Ok(keeper),
            Err(error) if Instant::now() > until => return Err(error),
            Err(error) => match child.try_wait()? {
                Some(status) => {
                    return Err(io::Error::other(format!("it ended with {status}: {error}")));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            },
        }
    }
}

/// The keeper's life: `sublet keep SOCKET`, with the memfd as standard input.
///
/// # Errors
///
/// There is no standard input, or the socket is taken.
pub fn keep(socket: &Path) -> io::Result<()> {
    // It was started by a name that says nothing (`exe`).
    rustix::thread::set_name(c"sublet-keep")?;
    // The kernel hangs up on a group that is stopped when its last parent dies: just when it is needed.
    signal_hook::flag::register(SIGHUP, Arc::default())?;
    let kept = io::stdin().as_fd().try_clone_to_owned()?;
    if fs::symlink_metadata(socket).is_ok_and(|there| there.file_type().is_socket()) {
        fs::remove_file(socket)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(socket);
    rustix::process::umask(before);
    let listener = listener?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))?;
    loop {
        let visitor = listener.accept().map(|(visitor, _)| visitor);
        let Ok(mut visitor) = visitor else {
            // No descriptor or no memory for it: later, perhaps.
            std::thread::sleep(PAUSE);
            continue;
        };
        if attend(&mut visitor, &kept).unwrap_or(false) {
            break fs::remove_file(socket);
        }
    }
}

/// Does what a visitor wants. Says whether that was to end.
fn attend(visitor: &mut UnixStream, kept: &OwnedFd) -> io::Result<bool> {
    visitor.set_read_timeout(Some(PATIENCE))?;
    let peer = rustix::net::sockopt::socket_peercred(&*visitor)?;
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
        &*visitor,
        &[IoSlice::new(&wanted)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(false)
}
