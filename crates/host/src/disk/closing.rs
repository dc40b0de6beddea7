//! How disks end: everything goes to their backings first, or is given up if their owner says so.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::Mutex;
use sublet_frontends::block_device::{
    Buffer, Disk, DiskOperation, DiskOutcome, DiskRequest, OutcomeSink,
};
use sublet_types::{DiskName, Pages};

use super::error::DiskError;
use super::kept_stage::KeptStage;
use super::open::remove_unused_backing;
use super::open_disks::{OpenDisks, ServedDisk};
use super::stage::{Stage, StageNotes};
use super::swap::Swap;

/// How often a wait checks whether everything is written.
const LOOK: Duration = Duration::from_millis(5);

/// How long a backing may take to write pages that are given up if it does not take them.
const LAST_CHANCE: Duration = Duration::from_secs(10);

/// How long the end waits for a socket that is being made.
const PLACES_MAX: Duration = Duration::from_secs(5);

/// What happens to pages that a backing does not take when their disk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnwrittenAction {
    /// The pages stay, and their disk stays with them.
    Keep,
    /// The pages are discarded.
    Discard,
}

/// How long clients of all disks may take to disconnect when the daemon ends.
const CLOSING_MAX: Duration = Duration::from_secs(40);

/// How long the removal of notes may take. Their file system may hang.
const NOTES_MAX: Duration = Duration::from_secs(10);

/// How long a wait for a backing lasts.
#[derive(Clone, Copy)]
enum WaitLimit {
    Unlimited,
    Until(Instant),
    /// The wait ends when the backing has been silent for this long.
    Silence(Duration),
}

impl WaitLimit {
    /// How much of the limit is left for a backing that moved last at that moment. `None` is without end.
    fn left(self, moved_at: Instant) -> Option<Duration> {
        match self {
            WaitLimit::Unlimited => None,
            WaitLimit::Until(until) => Some(until.saturating_duration_since(Instant::now())),
            WaitLimit::Silence(longest) => Some(longest.saturating_sub(moved_at.elapsed())),
        }
    }
}

fn unresponsive() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
}

fn is_unresponsive(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

impl OpenDisks {
    /// Waits until the backing has everything that was written before the call.
    pub(super) fn flush(&self, name: &DiskName) -> Result<(), DiskError> {
        self.find(name)?.flush(WaitLimit::Unlimited)
    }

    /// Writes everything to the backing of a disk that is to be removed.
    ///
    /// # Errors
    ///
    /// The backing fails: only memory has what its guest wrote.
    pub(super) fn drain_for_removal(&self, name: &DiskName) -> Result<(), DiskError> {
        self.find(name)?
            .drain_for_removal(self.environment.silence_max)
    }

    /// Ends a disk when its backing has everything, or when what it does not take is given up. The disk's clients are
    /// disconnected. Returns how much was given up. That is nothing if everything is to be kept, because what is left
    /// on the stage then stays there.
    ///
    /// # Errors
    ///
    /// The backing fails, and nothing may be given up. The disk then stays and is served.
    pub(super) fn remove(
        &self,
        name: &DiskName,
        unwritten: UnwrittenAction,
    ) -> Result<Pages, DiskError> {
        let leaving = self.find(name)?;
        leaving.is_leaving.store(true, Ordering::Relaxed);
        // Clients may write until they are gone.
        let cleared = match unwritten {
            UnwrittenAction::Keep => {
                match self.disconnect_within(name, self.environment.silence_max) {
                    true => leaving.drain_for_removal(self.environment.silence_max),
                    false => Err(leaving.kept_error(unresponsive())),
                }
            }
            UnwrittenAction::Discard => {
                if !self.disconnect_within(name, LAST_CHANCE) {
                    tracing::error!(disk = %name, waited = ?LAST_CHANCE, "the removed disk still has clients because its backing does not answer their requests; the daemon removes it all the same");
                }
                leaving.try_drain(LAST_CHANCE);
                Ok(())
            }
        };
        if let Err(error) = cleared {
            leaving.is_leaving.store(false, Ordering::Relaxed);
            let disk = Arc::clone(&leaving.disk);
            if let Err(error) = self.serve(&disk, &leaving.settings) {
                tracing::error!(disk = %name, %error, "the daemon could not remove the disk, and cannot serve it again; no client reaches it: run `sublet disk remove` again, or restart the daemon");
            }
            return Err(error);
        }
        self.open.lock().remove(name);
        self.watch.end(name);
        let given_up = match unwritten {
            UnwrittenAction::Keep => {
                leaving.end_within(LAST_CHANCE);
                Pages(0)
            }
            UnwrittenAction::Discard => {
                leaving.disk.swap.iter().for_each(Swap::begin_ending);
                let before = self.discard_staged(name);
                leaving.end_within(LAST_CHANCE);
                // This includes what was staged in that moment. Otherwise it would come back later, over what is newer
                // then.
                Pages(before.0 + self.discard_staged(name).0)
            }
        };
        self.drop_stage_note(name);
        self.served.remove(name);
        Ok(given_up)
    }

    /// Ends a disk that was added in vain. The backing that was made for it goes, too.
    ///
    /// # Errors
    ///
    /// A guest was sooner, and the backing does not take what it wrote. The disk then stays and is served.
    pub(super) fn retract(&self, name: &DiskName) -> Result<(), DiskError> {
        let retracted = self.find(name)?;
        self.remove(name, UnwrittenAction::Keep)?;
        let backing = &retracted.disk.backing;
        if backing.is_new() {
            remove_unused_backing(backing.path());
        }
        drop(retracted);
        self.end_idle_stage();
        Ok(())
    }

    /// Pages of a disk that is not open and that an earlier daemon had yet to write.
    pub(super) fn left_pages(&self, name: &DiskName) -> Pages {
        Pages(self.stage().map_or(0, |stage| stage.count_of(name)))
    }

    /// Discards what is staged under that name, so that nobody finds it again. Returns how much that was.
    pub(super) fn discard_staged(&self, name: &DiskName) -> Pages {
        let stage = self.stage();
        let pages = Pages(stage.map_or(0, |stage| stage.remove_all(name)));
        if pages.0 > 0 {
            tracing::warn!(disk = %name, given_up = %pages, "the daemon gave up pages that no backing has, as their owner ordered; a guest that swapped them must not go on");
        }
        self.stage_notes.remove(name);
        self.served.remove(name);
        pages
    }

    pub(super) fn stage(&self) -> Option<Arc<Stage>> {
        let staging = self.staging.lock();
        staging.as_ref().map(|staging| Arc::clone(&staging.stage))
    }

    /// Shows every disk as leaving. From now on no disk acknowledges what its backing does not have.
    pub(super) fn begin_ending(&self) {
        for disk in self.open.lock().values() {
            disk.is_leaving.store(true, Ordering::Relaxed);
            disk.disk.swap.iter().for_each(Swap::begin_ending);
        }
    }

    /// Writes to a disk's backing what it takes, while it is not silent for too long. Pages of swap that it does not
    /// take are left to the next start.
    pub(super) fn drain(&self, name: &DiskName) -> Result<(), DiskError> {
        self.find(name)?
            .flush(WaitLimit::Silence(self.environment.silence_max))
    }

    /// Disconnects all clients, writes what is staged, and ends every disk. The clients are shown until then. What
    /// hangs is left.
    pub(super) fn end(&self) {
        let places = self.places.try_lock_for(PLACES_MAX);
        if places.is_none() {
            tracing::error!(
                disks = self.names(),
                waited = ?PLACES_MAX,
                "clients of disks stay connected because the file system of a disk's socket hangs; the daemon ends without them: check that file system"
            );
        }
        if let Some(places) = places.and_then(|mut places| places.take())
            && !run_within(
                CLOSING_MAX.min(self.environment.silence_max),
                "closing",
                || places.end(),
            )
        {
            tracing::error!(
                disks = self.names(),
                waited = ?CLOSING_MAX.min(self.environment.silence_max),
                "clients of disks stay connected because a backing does not answer their requests; the daemon ends without them: check the backings"
            );
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
            staging.end(&self.stage_notes);
        }
    }

    /// The names of all open disks, for a log line.
    fn names(&self) -> String {
        let names: Vec<String> = self.open.lock().keys().map(DiskName::to_string).collect();
        names.join(", ")
    }
}

/// Runs some work on a thread of its own and waits at most `time`. Returns whether the work was done. If no thread can
/// be made, the work is done at once.
fn run_within(time: Duration, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
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
    /// Asks nothing more of the disk.
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
            tracing::error!(disk = %self.settings.name, waited = ?left, "the backing of the disk hangs: the disk's thread ends with the process, and its lock ends when the backing answers");
        }
    }

    /// Ends the disk's thread. If its backing hangs, the thread is left alone.
    pub(super) fn end_within(&self, time: Duration) {
        let running = self.running.lock().take();
        let has_ended = running.is_none_or(|running| running.end_within(time));
        if !has_ended {
            tracing::error!(disk = %self.settings.name, waited = ?time, "the backing of the removed disk hangs: the disk's thread, memory and lock stay until the backing answers or the daemon ends");
        }
    }

    fn failed(&self, source: io::Error) -> DiskError {
        let name = self.settings.name.clone();
        DiskError::Failed { name, source }
    }

    /// Writes everything to the backing, until that fails or the limit ends.
    fn flush(&self, patience: WaitLimit) -> Result<(), DiskError> {
        self.write_staged(patience)?;
        let (asked, answer) = channel();
        self.disk.submit(DiskRequest {
            operation: DiskOperation::Flush,
            at: 0,
            len: 0,
            buffer: Buffer::default(),
            outcomes: Arc::new(OutcomeWaiter(Mutex::new(asked))),
            token: 0,
        });
        let answered = match patience.left(Instant::now()) {
            None => answer.recv().map_err(io::Error::other),
            Some(left) => answer.recv_timeout(left).map_err(|_| unresponsive()),
        };
        let result = answered.map_err(|error| self.failed(error))?.result;
        result.map_err(|fault| self.failed(io::Error::other(fault)))
    }

    /// Waits for the write-behind task. It tries a backing that failed before once more.
    fn write_staged(&self, patience: WaitLimit) -> Result<(), DiskError> {
        let Some(swap) = &self.disk.swap else {
            return Ok(());
        };
        let failures = swap.failures();
        let hurry = swap.request_drain();
        let (mut dirty, mut moved_at) = (swap.dirty(), Instant::now());
        while hurry.is_pending() {
            if swap.failures() > failures {
                let why = self.disk.write_failure().unwrap_or_default();
                return Err(self.failed(io::Error::other(format!("it takes no writes: {why}"))));
            }
            if patience.left(moved_at) == Some(Duration::ZERO) {
                return Err(self.failed(unresponsive()));
            }
            thread::sleep(LOOK);
            if std::mem::replace(&mut dirty, swap.dirty()) != dirty {
                moved_at = Instant::now();
            }
        }
        Ok(())
    }

    /// Writes everything to the backing. What is written to a disk of files is there already, and a flush that fails
    /// loses nothing more. But a backing that does not answer holds what its clients asked for.
    fn drain_for_removal(&self, silence_max: Duration) -> Result<(), DiskError> {
        match self.flush(WaitLimit::Silence(silence_max)) {
            Err(DiskError::Failed { source, .. })
                if self.disk.swap.is_some() || is_unresponsive(&source) =>
            {
                Err(self.kept_error(source))
            }
            _ => Ok(()),
        }
    }

    /// The error that says why a disk cannot go without a loss.
    fn kept_error(&self, source: io::Error) -> DiskError {
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

    /// Writes to the backing what it takes within a time.
    pub(super) fn try_drain(&self, time: Duration) {
        if let Some(swap) = &self.disk.swap
            && let Err(error) = self.flush(WaitLimit::Until(Instant::now() + time))
        {
            tracing::warn!(disk = %self.settings.name, left = %Pages(swap.dirty()), %error, "the daemon removes the disk before its backing has everything, because its owner said so; what is left is lost");
        }
    }
}

impl KeptStage {
    /// Ends the disk. What could not be written is kept for the next daemon.
    fn end(self, stage_notes: &StageNotes) {
        let left = self.stage.disks();
        for (disk, pages) in &left {
            tracing::error!(%disk, pages, "pages of swap have no copy on their backing; the keeper keeps them in memory for the next start: mend the backing and start the daemon");
        }
        let named: Vec<DiskName> = left.iter().map(|(disk, _)| disk.clone()).collect();
        let (stage_notes, stage) = (stage_notes.clone(), self.stage.id().clone());
        let is_empty = left.is_empty();
        if !run_within(NOTES_MAX, "notes", move || {
            stage_notes.remove_all_but(&stage, &named)
        }) {
            tracing::error!(
                waited = ?NOTES_MAX,
                "notes on pages of swap stay because the state folder's file system does not answer; the next start takes such disks for lost: `sublet disk open NAME --force` opens one"
            );
        }
        let Some(kept) = self.kept else {
            return;
        };
        match is_empty {
            true => kept.end(),
            false if !kept.is_found() => {
                let pages: u64 = left.iter().map(|(_, pages)| pages).sum();
                tracing::error!(
                    pages,
                    disks = left.len(),
                    "no keeper can hand pages of swap to the next start, and they are lost; it keeps their disks closed: end the guests, then `sublet disk open NAME --force`"
                );
            }
            false => {}
        }
    }
}

/// Waits for one outcome.
struct OutcomeWaiter(Mutex<Sender<DiskOutcome>>);

impl OutcomeSink for OutcomeWaiter {
    fn deliver(&self, outcome: DiskOutcome) {
        let _ = self.0.lock().send(outcome);
    }
}
