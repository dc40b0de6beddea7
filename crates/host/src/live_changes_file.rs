//! Changes that outlast the daemon. They are made one after the other, and a thread writes them, so that nobody waits
//! without end. Readers get a copy that is swapped when the changes are written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::config::{LiveChanges, PersistError};

/// How long a state folder may take for a change.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// How long a change waits for those before it.
const TURN_MAX: Duration = Duration::from_secs(30);

/// How often to try to overwrite a refused change that may be in the file.
const RETRY: Duration = Duration::from_secs(1);

/// Writes live changes to the file.
type WriteChanges = dyn Fn(&LiveChanges) -> Result<(), PersistError> + Send + Sync;

/// Live changes.
#[derive(Clone)]
pub(crate) struct LiveChangesFile {
    state: Arc<LiveChangesState>,
}

/// What callers share with the thread that writes.
struct LiveChangesState {
    /// Held during a change, so that what is kept is what holds.
    turn: Mutex<()>,
    write_max: Duration,
    /// The changes as the file has them.
    shown: Mutex<Arc<LiveChanges>>,
    write_state: Mutex<WriteState>,
    news: Condvar,
    /// The file may have a change that was refused. The next write is made whatever it says.
    is_in_doubt: AtomicBool,
    /// A thread takes care of that.
    is_settling: AtomicBool,
    write: Box<WriteChanges>,
}

/// The state of a write.
///
/// ```text
/// Free → Writing → Wrote → Free
///           └────→ GivenUp → Free     the writer puts back what the file said before
/// ```
enum WriteState {
    Free,
    Writing,
    Written(Result<(), PersistError>),
    /// Nobody waits for the write any more, and the change does not hold.
    GivenUp,
}

impl LiveChangesFile {
    pub(crate) fn of(live: LiveChanges) -> LiveChangesFile {
        LiveChangesFile::written_by(live, WRITE_MAX, Box::new(LiveChanges::write))
    }

    fn written_by(
        live: LiveChanges,
        write_max: Duration,
        write: Box<WriteChanges>,
    ) -> LiveChangesFile {
        let state = LiveChangesState {
            turn: Mutex::new(()),
            write_max,
            is_settling: AtomicBool::new(false),
            shown: Mutex::new(Arc::new(live)),
            write_state: Mutex::new(WriteState::Free),
            news: Condvar::new(),
            is_in_doubt: AtomicBool::new(false),
            write,
        };
        LiveChangesFile {
            state: Arc::new(state),
        }
    }

    /// All changes now. Never waits.
    pub(crate) fn current(&self) -> Arc<LiveChanges> {
        Arc::clone(&self.state.shown.lock())
    }

    /// The right to change something.
    pub(crate) fn lock(&self) -> Result<ChangeGuard<'_>, PersistError> {
        match self.state.turn.try_lock_for(TURN_MAX) {
            Some(turn) => Ok(ChangeGuard {
                changes: self,
                _turn: turn,
            }),
            None => Err(self.unresponsive_error()),
        }
    }

    /// Changes one thing and writes it down.
    pub(crate) fn persist(
        &self,
        next: impl FnOnce(&LiveChanges) -> LiveChanges,
    ) -> Result<(), PersistError> {
        self.lock()?.persist(next)
    }

    /// Writes what holds over a change that was refused, if the file may have one and nobody changes anything now.
    pub(crate) fn reconcile(&self) {
        let Some(turn) = self.state.turn.try_lock() else {
            return;
        };
        let turn = ChangeGuard {
            changes: self,
            _turn: turn,
        };
        if self.state.is_in_doubt.load(Ordering::Relaxed)
            && let Err(error) = turn.persist(LiveChanges::clone)
        {
            tracing::debug!(%error, again_in = ?RETRY, "live.toml may still have a change that was refused; the daemon tries to overwrite it until it succeeds or ends");
        }
    }

    /// Starts a thread that does that until it succeeds.
    fn reconcile_later(&self) {
        let state = &self.state;
        if !state.is_in_doubt.load(Ordering::Relaxed)
            || state.is_settling.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let changes = self.clone();
        let thread = thread::Builder::new().name("settle".to_owned());
        let settling = thread.spawn(move || {
            while changes.state.is_in_doubt.load(Ordering::Relaxed) {
                thread::sleep(RETRY);
                changes.reconcile();
            }
            changes.state.is_settling.store(false, Ordering::Release);
            // A new doubt may have come meanwhile.
            changes.reconcile_later();
        });
        if settling.is_err() {
            state.is_settling.store(false, Ordering::Release);
        }
    }

    fn unresponsive_error(&self) -> PersistError {
        let folder = self.current().state().folder().map(PathBuf::from);
        PersistError::Unresponsive(folder.unwrap_or_default())
    }
}

/// The right to change something.
pub(crate) struct ChangeGuard<'a> {
    changes: &'a LiveChangesFile,
    _turn: MutexGuard<'a, ()>,
}

impl ChangeGuard<'_> {
    /// Writes changes down and shows them. If they cannot be written, they are not shown. What the file has of them is
    /// overwritten within seconds.
    pub(crate) fn persist(
        &self,
        next: impl FnOnce(&LiveChanges) -> LiveChanges,
    ) -> Result<(), PersistError> {
        let changes = self.changes;
        let before = changes.current();
        let next = Arc::new(next(&before));
        if next.is_same_as(&before) && !changes.state.is_in_doubt.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.write(&next)?;
        *changes.state.shown.lock() = next;
        Ok(())
    }

    fn write(&self, next: &Arc<LiveChanges>) -> Result<(), PersistError> {
        let state = &self.changes.state;
        let mut pen = state.write_state.lock();
        if !matches!(*pen, WriteState::Free) {
            return Err(self.changes.unresponsive_error());
        }
        *pen = WriteState::Writing;
        let (writer, next) = (self.changes.clone(), Arc::clone(next));
        let thread = thread::Builder::new().name("live".to_owned());
        let spawned = thread.spawn(move || {
            writer.state.write(&next);
            writer.reconcile_later();
        });
        let thread = match spawned {
            Ok(thread) => thread,
            Err(source) => {
                *pen = WriteState::Free;
                let path = self.changes.current().path().unwrap_or_default();
                return Err(PersistError::Write { path, source });
            }
        };
        let is_writing = |pen: &mut WriteState| matches!(pen, WriteState::Writing);
        state
            .news
            .wait_while_for(&mut pen, is_writing, state.write_max);
        match std::mem::replace(&mut *pen, WriteState::Free) {
            WriteState::Written(wrote) => {
                drop(pen);
                // It ends now. Until then, it holds the state folder's claim, even if this daemon lets go of it.
                let _ = thread.join();
                wrote
            }
            _ => {
                *pen = WriteState::GivenUp;
                drop(pen);
                Err(self.changes.unresponsive_error())
            }
        }
    }
}

impl LiveChangesState {
    fn write(&self, next: &LiveChanges) {
        let wrote = (self.write)(next);
        let is_in_doubt = matches!(wrote, Err(PersistError::Unsure { .. }));
        self.is_in_doubt.store(is_in_doubt, Ordering::Relaxed);
        let mut pen = self.write_state.lock();
        if matches!(*pen, WriteState::Writing) {
            *pen = WriteState::Written(wrote);
            self.news.notify_all();
            return;
        }
        drop(pen);
        if wrote.is_ok() {
            self.put_back();
        }
        *self.write_state.lock() = WriteState::Free;
    }

    /// Writes what holds over a change that was refused for its delay.
    fn put_back(&self) {
        let holds = Arc::clone(&self.shown.lock());
        let path = holds.path().unwrap_or_default();
        match (self.write)(&holds) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "the state folder answers again; the daemon wrote to live.toml what holds");
            }
            Err(error) => {
                self.is_in_doubt.store(true, Ordering::Relaxed);
                tracing::error!(path = %path.display(), waited = ?self.write_max, %error, "live.toml has a change that was refused because the state folder did not answer in time; the daemon tries to overwrite it: check the folder's file system");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use sublet_types::{TenantName, Weight};

    use super::*;
    use crate::config::TenantChange;
    use crate::wait_until::wait_until;

    fn web() -> TenantName {
        "web".parse().expect("a name")
    }

    fn weight(n: u32) -> impl Fn(&LiveChanges) -> LiveChanges {
        let change = TenantChange {
            weight: Some(Weight(n)),
            ..TenantChange::default()
        };
        move |live| live.with_change(web(), &change)
    }

    /// A folder that hangs in a write until it is told to go on, and reports each write that ended.
    fn hanging() -> (
        LiveChangesFile,
        mpsc::Sender<()>,
        mpsc::Receiver<Option<Weight>>,
    ) {
        let (go_on, told) = mpsc::channel::<()>();
        let (tell, written) = mpsc::channel();
        let told = Mutex::new(told);
        let write = move |live: &LiveChanges| {
            let _ = told.lock().recv();
            let _ = tell.send(live.change(&web()).weight);
            Ok(())
        };
        let patience = Duration::from_millis(50);
        let changes =
            LiveChangesFile::written_by(LiveChanges::none(None), patience, Box::new(write));
        (changes, go_on, written)
    }

    #[test]
    fn what_a_failed_write_may_have_left_is_written_over() {
        let (tell, written) = mpsc::channel();
        let write = move |live: &LiveChanges| {
            let weight = live.change(&web()).weight;
            let _ = tell.send(weight);
            let source = io::ErrorKind::Other.into();
            let path = PathBuf::new();
            match weight {
                Some(_) => Err(PersistError::Unsure { path, source }),
                None => Ok(()),
            }
        };
        let changes =
            LiveChangesFile::written_by(LiveChanges::none(None), WRITE_MAX, Box::new(write));
        changes.persist(weight(7)).expect_err("it is refused");
        for _ in 0..2 {
            changes
                .persist(|live| live.with_folder(PathBuf::from("/vm")))
                .expect("kept");
        }
        let writes: Vec<_> = written.try_iter().collect();
        assert_eq!(writes, [Some(Weight(7)), None]);
    }

    /// As if `live.toml` was replaced, but it is unknown whether that outlasts a crash.
    #[test]
    fn a_refused_change_is_written_over_though_nobody_changes_anything_more() {
        let (tell, written) = mpsc::channel();
        let left = AtomicBool::new(true);
        let write = move |live: &LiveChanges| {
            let _ = tell.send(live.change(&web()).weight);
            let (path, source) = (PathBuf::new(), io::ErrorKind::Other.into());
            match left.swap(live.change(&web()).weight.is_some(), Ordering::Relaxed) {
                true => Err(PersistError::Unsure { path, source }),
                false => Ok(()),
            }
        };
        let changes =
            LiveChangesFile::written_by(LiveChanges::none(None), WRITE_MAX, Box::new(write));
        changes.persist(weight(7)).expect_err("it is refused");
        wait_until("it is in doubt no more", || {
            !changes.state.is_settling.load(Ordering::Acquire)
                && !changes.state.is_in_doubt.load(Ordering::Relaxed)
        });
        let writes: Vec<_> = written.try_iter().collect();
        assert_eq!(writes, [Some(Weight(7)), None, None]);
    }

    #[test]
    fn a_folder_that_hangs_delays_nobody_who_looks_and_its_change_is_taken_back() {
        let (changes, go_on, written) = hanging();
        for n in 7..9 {
            let kept = changes.persist(weight(n));
            assert!(
                matches!(kept, Err(PersistError::Unresponsive(_))),
                "{kept:?}"
            );
            assert_eq!(changes.current().change(&web()).weight, None);
        }
        // The second change was refused before anything was written. Only the first is written late, and then put back.
        go_on.send(()).expect("it waits");
        go_on.send(()).expect("it waits");
        let writes: Vec<_> = written.iter().take(2).collect();
        assert_eq!(writes, [Some(Weight(7)), None]);

        go_on.send(()).expect("it waits");
        wait_until("a change is kept again", || {
            changes.persist(weight(9)).is_ok()
        });
        assert_eq!(changes.current().change(&web()).weight, Some(Weight(9)));
    }
}
