//! The keeper: a process of its own that holds the stage's memfd open while no daemon runs, and does nothing else.
//!
//! The keeper has the memfd as its standard input. It hands the memfd to any process of its own user that connects to
//! its socket. One byte from there says what is wanted: `g` asks for the memfd, `e` asks the keeper to end.

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

use super::super::event_fd::EventFd;
use super::layout::{Preface, file_bytes};

const GIVE: u8 = b'g';
const END: u8 = b'e';

/// The program that runs, whatever became of its file: an upgrade replaces the file under a running daemon.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How long a new keeper may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no stage.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The system refused to make or find the stage.
    #[error("cannot keep pages of swap at {path}: {source}")]
    System {
        /// The keeper's socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The stage's file would be larger than this process may make one.
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
    /// Another daemon has the stage.
    #[error(
        "the pages of swap at {0} are in use by another daemon: stop it, or give this one another --admin"
    )]
    InUse(PathBuf),
}

impl KeeperError {
    /// An error of the system at the keeper's socket.
    pub(in super::super) fn at(socket: &Path, source: io::Error) -> KeeperError {
        let path = socket.to_owned();
        KeeperError::System { path, source }
    }

    /// The error that no new stage with this many slots can be made.
    fn creation_error(socket: &Path, slots: u32, source: io::Error) -> KeeperError {
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

/// How often a wait checks whether its condition has come true.
const LOOK: Duration = Duration::from_millis(5);

/// How often the follower checks that a keeper is found, and how long it waits before it tries another.
const PAUSE: Duration = Duration::from_secs(1);

/// A stage's memfd, and its keeper's socket.
#[derive(Debug)]
pub(in super::super) struct KeptMemfd {
    socket: PathBuf,
    file: File,
    control: Arc<KeeperControl>,
    /// The thread that makes sure that there is always a keeper.
    follower: Option<JoinHandle<()>>,
}

/// What is wanted of a keeper, and its state.
#[derive(Debug)]
struct KeeperControl {
    /// The follower starts no other keeper when this one ends.
    is_last: AtomicBool,
    /// The keeper is to end.
    is_over: AtomicBool,
    /// No later daemon would find the pages: there is no keeper, or another process's socket is in its place.
    is_lost: Arc<AtomicBool>,
    /// Wakes the follower, so that it sees what is wanted.
    event_fd: EventFd,
}

impl KeeperControl {
    fn new() -> io::Result<KeeperControl> {
        Ok(KeeperControl {
            is_last: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_lost: Arc::default(),
            event_fd: EventFd::new()?,
        })
    }

    fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    fn mark_found(&self) {
        self.is_lost.store(false, Ordering::Release);
    }
}

/// The keeper stays, for the next daemon.
impl Drop for KeptMemfd {
    fn drop(&mut self) {
        self.control.is_last.store(true, Ordering::Release);
        self.control.event_fd.notify();
    }
}

/// A keeper that answered.
struct KeeperProcess {
    memfd: OwnedFd,
    pid: Pid,
    process: OwnedFd,
}

impl KeptMemfd {
    /// The memfd that the keeper at `socket` has. If there is none, makes a new memfd with this many slots and a keeper
    /// for it: this program as `sublet keep SOCKET`.
    pub(in super::super) fn find_or_start(
        socket: &Path,
        slots: u32,
    ) -> Result<KeptMemfd, KeeperError> {
        match KeptMemfd::find(socket)? {
            Some(kept) => Ok(kept),
            None => {
                let keeper = start_with_new_memfd(socket, slots);
                let made = |source| KeeperError::creation_error(socket, slots, source);
                KeptMemfd::of(socket, keeper.map_err(made)?)
            }
        }
    }

    /// The memfd that the keeper at `socket` has, if there is one.
    pub(in super::super) fn find(socket: &Path) -> Result<Option<KeptMemfd>, KeeperError> {
        match request_memfd(socket) {
            Ok(keeper) => KeptMemfd::of(socket, keeper).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(KeeperError::at(socket, source)),
        }
    }

    /// Takes over what a keeper has, and makes sure that there is always a keeper.
    fn of(socket: &Path, keeper: KeeperProcess) -> Result<KeptMemfd, KeeperError> {
        let failed = |source| KeeperError::at(socket, source);
        // Opened anew, so that this process owns the lock.
        let path = format!("/proc/self/fd/{}", keeper.memfd.as_raw_fd());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(KeeperError::InUse(socket.to_owned()));
        }
        let mut kept = KeptMemfd {
            socket: socket.to_owned(),
            file,
            control: Arc::new(KeeperControl::new().map_err(failed)?),
            follower: None,
        };
        let (socket, control) = (socket.to_owned(), Arc::clone(&kept.control));
        let follower = std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || supervise(&socket, keeper, &control))
            .map_err(failed)?;
        kept.follower = Some(follower);
        Ok(kept)
    }

    /// The memfd.
    pub(in super::super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns whether no later daemon would find the pages, kept up to date.
    pub(in super::super) fn is_lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.control.is_lost)
    }

    /// Waits a short time until the next daemon can find the pages. Returns whether it can.
    pub(in super::super) fn is_found(&self) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.control.is_lost.load(Ordering::Acquire) || !self.socket.exists() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Ends the keeper, because nothing is left to keep. The socket is free when this returns, unless it is another
    /// process's.
    pub(in super::super) fn end(mut self) {
        self.control.is_over.store(true, Ordering::Release);
        self.control.event_fd.notify();
        let Some(follower) = self.follower.take() else {
            return;
        };
        let until = Instant::now() + 3 * PATIENCE;
        while !follower.is_finished() {
            if Instant::now() > until {
                tracing::error!(socket = %self.socket.display(), waited = ?(3 * PATIENCE), "the keeper of swap pages does not end, and has no pages any more; the daemon ends without it: kill `sublet keep` if it stays");
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    let nobody = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    nobody.contains(&error.kind())
}

/// What happened to a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeeperChange {
    Ended,
    /// Nobody finds the keeper: the file of its socket was removed.
    Hidden,
    /// Another process's socket is in the place of the keeper's.
    Displaced,
    /// Something is wanted.
    Requested,
}

/// Makes sure that there is always a keeper that the next daemon finds, until nobody wants one any more. If a keeper
/// ends, or its socket is removed, another keeper with the same pages follows it.
fn supervise(socket: &Path, mut keeper: KeeperProcess, control: &KeeperControl) {
    let mut is_told = false;
    loop {
        let seen = match wait_for_change(socket, &keeper, control) {
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(pid = %keeper.pid, socket = %socket.display(), %error, "the daemon cannot see whether the keeper of swap pages is alive; swap is written through until the daemon is restarted");
                control.mark_lost();
                return;
            }
        };
        if control.is_over() {
            return end(socket, &keeper);
        }
        if control.is_last() {
            return;
        }
        match seen {
            KeeperChange::Requested => continue,
            KeeperChange::Displaced => {
                control.mark_lost();
                if !std::mem::replace(&mut is_told, true) {
                    tracing::error!(socket = %socket.display(), "another process listens where the keeper of swap pages did; no later start finds the pages, and swap is written through: end that process, or remove its socket");
                }
                let _ = control.event_fd.wait(Some(PAUSE));
                continue;
            }
            KeeperChange::Ended => {
                tracing::error!(pid = %keeper.pid, socket = %socket.display(), "the keeper of swap pages was ended; the daemon starts another with the same pages: find out who ended it");
            }
            KeeperChange::Hidden => {
                tracing::error!(pid = %keeper.pid, socket = %socket.display(), "the socket of the keeper of swap pages was removed; the daemon starts another keeper with the same pages: find out who removed it");
            }
        }
        control.mark_lost();
        match start(socket, &keeper.memfd) {
            Ok(next) => {
                let before = std::mem::replace(&mut keeper, next);
                is_told = false;
                control.mark_found();
                kill(&before);
            }
            Err(error) => {
                tracing::error!(socket = %socket.display(), %error, again_in = ?PAUSE, "the daemon cannot start a keeper of swap pages and tries again; swap is written through until then: `sublet doctor` checks the limits");
                let _ = control.event_fd.wait(Some(PAUSE));
            }
        }
    }
}

/// Waits until something happens to a keeper, or is wanted of it.
fn wait_for_change(
    socket: &Path,
    keeper: &KeeperProcess,
    control: &KeeperControl,
) -> io::Result<KeeperChange> {
    let mine = fs::symlink_metadata(socket).ok().map(|file| file.ino());
    loop {
        if has_ended(keeper, Some(&control.event_fd))? {
            reap(keeper);
            return Ok(KeeperChange::Ended);
        }
        if control.is_over() || control.is_last() {
            return Ok(KeeperChange::Requested);
        }
        match fs::symlink_metadata(socket) {
            Ok(file) if Some(file.ino()) == mine => {}
            Ok(_) => return Ok(KeeperChange::Displaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(KeeperChange::Hidden);
            }
            Err(_) => {}
        }
    }
}

/// Asks a keeper to end, and waits until its socket is gone.
fn request_end(socket: &Path) -> io::Result<()> {
    let mut keeper = UnixStream::connect(socket)?;
    keeper.set_read_timeout(Some(PATIENCE))?;
    keeper.write_all(&[END])?;
    keeper.read(&mut [0]).map(|_| ())
}

/// Waits a moment for a keeper's end, or until the event descriptor is notified. Returns whether the keeper has ended.
fn has_ended(keeper: &KeeperProcess, event_fd: Option<&EventFd>) -> io::Result<bool> {
    let pause = Timespec::try_from(PAUSE).ok();
    let ended = PollFd::new(&keeper.process, PollFlags::IN);
    let rung = event_fd.map(|event_fd| PollFd::new(event_fd, PollFlags::IN));
    let (count, rung) = (1 + rung.iter().count(), rung.unwrap_or(ended.clone()));
    let mut fds = [ended, rung];
    match poll(&mut fds[..count], pause.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(!fds[0].revents().is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// Only our own child can be waited for. Another process's child is left alone.
fn reap(keeper: &KeeperProcess) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let _ = waitid(WaitId::PidFd(keeper.process.as_fd()), how);
}

/// Ends a keeper. If it is found at its socket, it is asked to end and its socket is removed. Otherwise the kernel
/// kills it.
fn end(socket: &Path, keeper: &KeeperProcess) {
    let asked = request_memfd(socket).and_then(|found| match found.pid == keeper.pid {
        true => request_end(socket),
        false => Err(io::Error::other("another process listens there")),
    });
    if let Err(error) = asked {
        tracing::warn!(pid = %keeper.pid, socket = %socket.display(), %error, "the daemon cannot ask the keeper of swap pages to end, and kills it; it keeps no pages any more");
    }
    kill(keeper);
}

/// Kills a keeper. A keeper that has ended stays so.
fn kill(keeper: &KeeperProcess) {
    let _ = pidfd_send_signal(&keeper.process, Signal::KILL);
    let until = Instant::now() + PATIENCE;
    while !has_ended(keeper, None).unwrap_or(true) && Instant::now() < until {}
    reap(keeper);
}

/// Asks a keeper for what it keeps.
fn request_memfd(socket: &Path) -> io::Result<KeeperProcess> {
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
        true => Ok(KeeperProcess {
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
fn start_with_new_memfd(socket: &Path, slots: u32) -> io::Result<KeeperProcess> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = File::from(memfd_create("sublet-stage", flags)?);
    memfd.set_len(file_bytes(slots))?;
    fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW)?;
    Preface::write(&memfd, slots)?;
    start(socket, &OwnedFd::from(memfd))
}

/// Starts a keeper for a memfd, and waits until it answers. A keeper that does not answer is gone when this returns.
fn start(socket: &Path, memfd: &OwnedFd) -> io::Result<KeeperProcess> {
    // In a process group of its own, so that what ends the daemon (Ctrl-C, too) does not end the keeper.
    let mut child = Command::new(THIS_PROGRAM)
        .arg0("sublet")
        .arg("keep")
        .arg(socket)
        .stdin(Stdio::from(memfd.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let answer = wait_for_answer(socket, &mut child);
    match answer {
        Ok(keeper) if keeper.pid == Pid::from_child(&child) => Ok(keeper),
        answer => {
            let _ = child.kill();
            let _ = child.wait();
            answer.and_then(|_| Err(io::Error::other("another process listens there")))
        }
    }
}

/// Waits until a keeper answers. Stops waiting if the keeper has ended.
fn wait_for_answer(socket: &Path, child: &mut Child) -> io::Result<KeeperProcess> {
    let until = Instant::now() + PATIENCE;
    loop {
        match request_memfd(socket) {
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

/// The keeper process: `sublet keep SOCKET`, with the memfd as standard input.
///
/// # Errors
///
/// There is no standard input, or the socket is taken.
pub fn run_keeper(socket: &Path) -> io::Result<()> {
    // The name under which it was started (`exe`) says nothing.
    rustix::thread::set_name(c"sublet-keep")?;
    // If a group is stopped when its last parent dies, the kernel sends it SIGHUP. That is just when the keeper is
    // needed.
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
            // There is no descriptor or no memory for it. Try again later.
            std::thread::sleep(PAUSE);
            continue;
        };
        if serve_visitor(&mut visitor, &kept).unwrap_or(false) {
            break fs::remove_file(socket);
        }
    }
}

/// Does what a visitor wants. Returns whether the visitor asked the keeper to end.
fn serve_visitor(visitor: &mut UnixStream, kept: &OwnedFd) -> io::Result<bool> {
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
