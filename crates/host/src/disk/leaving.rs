//! How disks end: everything goes to their backings first, or is given up by their owner's word.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::Mutex;
use sublet_frontends::block::{Buffer, Disk, Outcome, Outcomes, Request, Verb};
use sublet_types::{DiskName, Pages};

use super::error::DiskError;
use super::open::undo;
use super::open_disks::{OpenDisks, ServedDisk};
use super::stage::{Pledges, Stage};
use super::staging::Staging;
use super::swap::Swap;

/// How often it is looked whether everything is written.
const LOOK: Duration = Duration::from_millis(5);

/// How long a backing may take for what is given up if it does not take it.
const LAST_CHANCE: Duration = Duration::from_secs(10);

/// How long the end waits for a socket that is being made.
const PLACES_MAX: Duration = Duration::from_secs(5);

/// What becomes of pages that a backing does not take when their disk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// They stay, and their disk with them.
    Kept,
    /// Nobody has them any more.
    GivenUp,
}

/// How long clients of all disks may take to part when the daemon ends.
const CLOSING_MAX: Duration = Duration::from_secs(40);

/// How long taking notes away may take: their file system may hang.
const NOTES_MAX: Duration = Duration::from_secs(10);

/// How long a backing is waited for.
#[derive(Clone, Copy)]
enum Patience {
    Endless,
    Until(Instant),
    /// For as long as it is never silent for so long.
    Silence(Duration),
}

impl Patience {
    /// How long it lasts still for a backing that moved last at that moment; `None` is without end.
    fn left(self, moved_at: Instant) -> Option<Duration> {
        match self {
            Patience::Endless => None,
            Patience::Until(until) => Some(until.saturating_duration_since(Instant::now())),
            Patience::Silence(longest) => Some(longest.saturating_sub(moved_at.elapsed())),
        }
    }
}

fn mute() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
}

fn is_mute(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

impl OpenDisks {
    /// Waits until everything that was written before lasts on the backing.
    pub(super) fn flush(&self, name: &DiskName) -> Result<(), DiskError> {
        self.find(name)?.flush(Patience::Endless)
    }

    /// Brings everything to the backing of a disk that is to be removed.
    ///
    /// # Errors
    ///
    /// The backing fails: only memory has what its guest wrote.
    pub(super) fn clear(&self, name: &DiskName) -> Result<(), DiskError> {
        self.find(name)?.clear(self.ground.silence_max)
    }

    /// Ends a disk when its backing has everything, or what it does not take is given up. Its clients are let go. Says
    /// how much was given up: nothing, where everything is to be kept, for then what is left on the stage stays there.
    ///
    /// # Errors
    ///
    /// The backing fails, and nothing may be given up: then the disk stays and is served.
    pub(super) fn remove(&self, name: &DiskName, unwritten: Unwritten) -> Result<Pages, DiskError> {
        let leaving = self.find(name)?;
        leaving.is_leaving.store(true, Ordering::Relaxed);
        // Clients may write until they are gone.
        let cleared = match unwritten {
            Unwritten::Kept => match self.let_go_within(name, self.ground.silence_max) {
                true => leaving.clear(self.ground.silence_max),
                false => Err(leaving.kept(mute())),
            },
            Unwritten::GivenUp => {
                if !self.let_go_within(name, LAST_CHANCE) {
                    tracing::error!(disk = %name, "a disk that is removed still has clients: its backing does not answer what they asked");
                }
                leaving.try_to_clear(LAST_CHANCE);
                Ok(())
            }
        };
        if let Err(error) = cleared {
            leaving.is_leaving.store(false, Ordering::Relaxed);
            let disk = Arc::clone(&leaving.disk);
            if let Err(error) = self.serve(&disk, &leaving.settings) {
                tracing::error!(disk = %name, %error, "nobody reaches a disk that could not be removed");
            }
            return Err(error);
        }
        self.open.lock().remove(name);
        self.watch.end(name);
        let given_up = match unwritten {
            Unwritten::Kept => {
                leaving.end_within(LAST_CHANCE);
                Pages(0)
            }
            Unwritten::GivenUp => {
                leaving.disk.swap.iter().for_each(Swap::begin_ending);
                let before = self.forget(name);
                leaving.end_within(LAST_CHANCE);
                // What was being staged in that moment, too: it would come back over what is newer then.
                Pages(before.0 + self.forget(name).0)
            }
        };
        self.redeem(name);
        self.served.forget(name);
        Ok(given_up)
    }

    /// Ends a disk that was added for nothing. The backing that was made for it goes, too.
    ///
    /// # Errors
    ///
    /// A guest was sooner, and the backing does not take what it wrote: then the disk stays and is served.
    pub(super) fn retract(&self, name: &DiskName) -> Result<(), DiskError> {
        let retracted = self.find(name)?;
        self.remove(name, Unwritten::Kept)?;
        let backing = &retracted.disk.backing;
        if backing.is_new() {
            undo(backing.path());
        }
        drop(retracted);
        self.fold_stage();
        Ok(())
    }

    /// Pages of a disk that is not open, which an earlier daemon had yet to write.
    pub(super) fn left_of(&self, name: &DiskName) -> Pages {
        Pages(self.stage().map_or(0, |stage| stage.count_of(name)))
    }

    /// Nobody is to find what is staged under that name again. Says how much that was.
    pub(super) fn forget(&self, name: &DiskName) -> Pages {
        let stage = self.stage();
        let pages = Pages(stage.map_or(0, |stage| stage.remove_all(name)));
        if pages.0 > 0 {
            tracing::warn!(disk = %name, given_up = %pages, "what no backing has was given up with its disk");
        }
        self.pledges.forget(name);
        self.served.forget(name);
        pages
    }

    pub(super) fn stage(&self) -> Option<Arc<Stage>> {
        let staging = self.staging.lock();
        staging.as_ref().map(|staging| Arc::clone(&staging.stage))
    }

    /// Every disk is shown as one that leaves, and none acknowledges any more what its backing does not have.
    pub(super) fn begin_ending(&self) {
        for disk in self.open.lock().values() {
            disk.is_leaving.store(true, Ordering::Relaxed);
            disk.disk.swap.iter().for_each(Swap::begin_ending);
        }
    }

    /// Brings to the backing of a disk what it takes while it is not silent for too long. What it does not take of swap is
    /// left to the next start.
    pub(super) fn drain(&self, name: &DiskName) -> Result<(), DiskError> {
        self.find(name)?
            .flush(Patience::Silence(self.ground.silence_max))
    }

    /// Lets all clients go, writes what is staged, and ends every disk. They are shown until then. What hangs is left.
    pub(super) fn end(&self) {
        let places = self.places.try_lock_for(PLACES_MAX);
        if places.is_none() {
            tracing::error!(
                "clients of disks are left: the file system of another disk's socket hangs"
            );
        }
        if let Some(places) = places.and_then(|mut places| places.take())
            && !within(CLOSING_MAX.min(self.ground.silence_max), "closing", || {
                places.end()
            })
        {
            tracing::error!("clients of disks are left: a backing does not answer what they asked");
        }
        let all: Vec<Arc<ServedDisk>> = self.open.lock().values().cloned().collect();
        all.iter().for_each(|disk| disk.begin_ending());
        let until = Instant::now() + LAST_CHANCE;
        for disk in &all {
            disk.end_until(until);
        }
        self.open.lock().clear();
        self.watch.end_all();
        let staging = self.staging.lock().take();
        if let Some(staging) = staging {
            staging.end(&self.pledges);
        }
    }
}

/// Does something on a thread of its own, and waits so long at most. Says whether it was done. Where no thread can be made it is
/// done at once.
fn within(time: Duration, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, all_done) = channel::<()>();
    let work = Arc::new(Mutex::new(Some(work)));
    let on_thread = Arc::clone(&work);
    let body = move || {
        if let Some(work) = on_thread.lock().take() {
            work();
        }
        drop(done);
    };
    if thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .is_err()
        && let Some(work) = work.lock().take()
    {
        work();
    }
    all_done.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}

impl Drop for OpenDisks {
    fn drop(&mut self) {
        self.end();
    }
}

impl ServedDisk {
    /// Nothing more is asked of it.
    fn begin_ending(&self) {
        if let Some(running) = &*self.running.lock() {
            running.begin_ending();
        }
    }

    /// Ends the disk's thread by then, or leaves it to the end of the process.
    fn end_until(&self, until: Instant) {
        let running = self.running.lock().take();
        let left = until.saturating_duration_since(Instant::now());
        let has_ended = running.is_none_or(|running| running.end_within(left));
        if !has_ended {
            tracing::error!(disk = %self.settings.name, "the backing of a disk hangs: its thread ends with the process, and the lock on the backing when that answers");
        }
    }

    /// Ends the disk's thread, which is left alone with a backing that hangs.
    pub(super) fn end_within(&self, time: Duration) {
        let running = self.running.lock().take();
        let has_ended = running.is_none_or(|running| running.end_within(time));
        if !has_ended {
            tracing::error!(disk = %self.settings.name, "the backing of a disk that was removed hangs: its thread, its memory and its lock on the backing stay until that answers or the daemon ends");
        }
    }

    fn failed(&self, source: io::Error) -> DiskError {
        let name = self.settings.name.clone();
        DiskError::Failed { name, source }
    }

    /// Brings everything to the backing, until that fails or patience ends.
    fn flush(&self, patience: Patience) -> Result<(), DiskError> {
        self.write_staged(patience)?;
        let (asked, answer) = channel();
        self.disk.start(Request {
            verb: Verb::Flush,
            at: 0,
            len: 0,
            buffer: Buffer::default(),
            to: Arc::new(Waiter(Mutex::new(asked))),
            token: 0,
        });
        let answered = match patience.left(Instant::now()) {
            None => answer.recv().map_err(io::Error::other),
            Some(left) => answer.recv_timeout(left).map_err(|_| mute()),
        };
        let result = answered.map_err(|error| self.failed(error))?.result;
        result.map_err(|fault| self.failed(io::Error::other(fault)))
    }

    /// Waits for who writes behind. A backing that failed before is tried once more.
    fn write_staged(&self, patience: Patience) -> Result<(), DiskError> {
        let Some(swap) = &self.disk.swap else {
            return Ok(());
        };
        let failures = swap.failures();
        let hurry = swap.hurry();
        let (mut dirty, mut moved_at) = (swap.dirty(), Instant::now());
        while hurry.has_some() {
            if swap.failures() > failures {
                let why = self.disk.ails_of().unwrap_or_default();
                return Err(self.failed(io::Error::other(format!("it takes no writes: {why}"))));
            }
            if patience.left(moved_at) == Some(Duration::ZERO) {
                return Err(self.failed(mute()));
            }
            thread::sleep(LOOK);
            if std::mem::replace(&mut dirty, swap.dirty()) != dirty {
                moved_at = Instant::now();
            }
        }
        Ok(())
    }

    /// Brings everything to the backing. What is written to a disk is there already, and a flush that fails loses
    /// nothing more; but a backing that does not answer holds what its clients asked.
    fn clear(&self, silence_max: Duration) -> Result<(), DiskError> {
        match self.flush(Patience::Silence(silence_max)) {
            Err(DiskError::Failed { source, .. })
                if self.disk.swap.is_some() || is_mute(&source) =>
            {
                Err(self.kept(source))
            }
            _ => Ok(()),
        }
    }

    /// Why a disk cannot go without a loss.
    fn kept(&self, source: io::Error) -> DiskError {
        let name = self.settings.name.clone();
        match &self.disk.swap {
            Some(swap) => DiskError::Unwritten {
                left: Pages(swap.stage.count_of(&name)),
                name,
                source,
            },
            None => DiskError::Silent { name },
        }
    }

    /// Brings to the backing what it takes within a time.
    pub(super) fn try_to_clear(&self, time: Duration) {
        if self.disk.swap.is_some()
            && let Err(error) = self.flush(Patience::Until(Instant::now() + time))
        {
            tracing::warn!(disk = %self.settings.name, %error, "a disk goes by its owner's word before its backing has everything");
        }
    }
}

impl Staging {
    /// What could not be written is kept for the next daemon.
    fn end(self, pledges: &Pledges) {
        let left = self.stage.disks();
        for (disk, pages) in &left {
            tracing::error!(%disk, pages, "pages of swap have no copy on their backing: they are kept in memory for the next start");
        }
        let named: Vec<DiskName> = left.iter().map(|(disk, _)| disk.clone()).collect();
        let (pledges, stage) = (pledges.clone(), self.stage.id().clone());
        let is_empty = left.is_empty();
        if !within(NOTES_MAX, "notes", move || {
            pledges.forget_all(&stage, &named)
        }) {
            tracing::error!(
                "notes on pages of swap stay in the state folder, whose file system does not answer: the next start takes such disks for lost ones"
            );
        }
        let Some(kept) = self.kept else {
            return;
        };
        match is_empty {
            true => kept.end(),
            false if !kept.is_found() => {
                tracing::error!(
                    "nobody can hand these pages to the next start: it will say which disks lack them"
                );
            }
            false => {}
        }
    }
}

/// Who waits for one outcome.
struct Waiter(Mutex<Sender<Outcome>>);

impl Outcomes for Waiter {
    fn done(&self, outcome: Outcome) {
        let _ = self.0.lock().send(outcome);
    }
}
