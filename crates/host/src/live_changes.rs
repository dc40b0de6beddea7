//! Changes that outlast the daemon: made one after the other, written by a thread that nobody waits for without end, and
//! shown from a copy that is swapped when they are written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::config::{KeepError, Live};

/// How long a state folder may take for a change.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// How long a change waits for those before it.
const TURN_MAX: Duration = Duration::from_secs(30);

/// How often what holds is written over a change that was refused, and may be in the file.
const RETRY: Duration = Duration::from_secs(1);

/// Writes live changes down.
type Write = dyn Fn(&Live) -> Result<(), KeepError> + Send + Sync;

/// Live changes.
#[derive(Clone)]
pub(crate) struct Changes {
    desk: Arc<Desk>,
}

/// What who changes shares with the thread that writes.
struct Desk {
    /// Held over a change, so that what is kept is what holds.
    turn: Mutex<()>,
    write_max: Duration,
    /// As the file has them.
    shown: Mutex<Arc<Live>>,
    pen: Mutex<Pen>,
    news: Condvar,
    /// The file may have a change that was refused: the next write is made whatever it says.
    is_in_doubt: AtomicBool,
    /// A thread sees to that.
    is_settling: AtomicBool,
    write: Box<Write>,
}

/// How a write stands.
///
/// ```text
/// Free → Writing → Wrote → Free
///           └────→ GivenUp → Free     the writer puts back what the file said before
/// ```
enum Pen {
    Free,
    Writing,
    Wrote(Result<(), KeepError>),
    /// Nobody waits for it any more, and the change does not hold.
    GivenUp,
}

impl Changes {
    pub(crate) fn of(live: Live) -> Changes {
        Changes::written_by(live, WRITE_MAX, Box::new(Live::write))
    }

    fn written_by(live: Live, write_max: Duration, write: Box<Write>) -> Changes {
        let desk = Desk {
            turn: Mutex::new(()),
            write_max,
            is_settling: AtomicBool::new(false),
            shown: Mutex::new(Arc::new(live)),
            pen: Mutex::new(Pen::Free),
            news: Condvar::new(),
            is_in_doubt: AtomicBool::new(false),
            write,
        };
        Changes {
            desk: Arc::new(desk),
        }
    }

    /// All of them, now. Waits for nobody.
    pub(crate) fn now(&self) -> Arc<Live> {
        Arc::clone(&self.desk.shown.lock())
    }

    /// The turn to change something.
    pub(crate) fn turn(&self) -> Result<Turn<'_>, KeepError> {
        match self.desk.turn.try_lock_for(TURN_MAX) {
            Some(turn) => Ok(Turn {
                changes: self,
                _turn: turn,
            }),
            None => Err(self.silent()),
        }
    }

    /// Changes one thing and keeps it.
    pub(crate) fn keep(&self, next: impl FnOnce(&Live) -> Live) -> Result<(), KeepError> {
        self.turn()?.keep(next)
    }

    /// Writes what holds over a change that was refused, if the file may have one and nobody changes anything now.
    pub(crate) fn settle(&self) {
        let Some(turn) = self.desk.turn.try_lock() else {
            return;
        };
        let turn = Turn {
            changes: self,
            _turn: turn,
        };
        if self.desk.is_in_doubt.load(Ordering::Relaxed)
            && let Err(error) = turn.keep(Live::clone)
        {
            tracing::debug!(%error, "live.toml may have a change that was refused still");
        }
    }

    /// Has a thread do that until it is done.
    fn settle_later(&self) {
        let desk = &self.desk;
        if !desk.is_in_doubt.load(Ordering::Relaxed)
            || desk.is_settling.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let changes = self.clone();
        let thread = thread::Builder::new().name("settle".to_owned());
        let settling = thread.spawn(move || {
            while changes.desk.is_in_doubt.load(Ordering::Relaxed) {
                thread::sleep(RETRY);
                changes.settle();
            }
            changes.desk.is_settling.store(false, Ordering::Release);
            // It may have come meanwhile.
            changes.settle_later();
        });
        if settling.is_err() {
            desk.is_settling.store(false, Ordering::Release);
        }
    }

    fn silent(&self) -> KeepError {
        let folder = self.now().state().folder().map(PathBuf::from);
        KeepError::Silent(folder.unwrap_or_default())
    }
}

/// The turn to change something.
pub(crate) struct Turn<'a> {
    changes: &'a Changes,
    _turn: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Writes changes down and shows them. Where they cannot be written they are not shown, and what the file has of them
    /// is written over within seconds.
    pub(crate) fn keep(&self, next: impl FnOnce(&Live) -> Live) -> Result<(), KeepError> {
        let changes = self.changes;
        let before = changes.now();
        let next = Arc::new(next(&before));
        if next.says_as(&before) && !changes.desk.is_in_doubt.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.write(&next)?;
        *changes.desk.shown.lock() = next;
        Ok(())
    }

    fn write(&self, next: &Arc<Live>) -> Result<(), KeepError> {
        let desk = &self.changes.desk;
        let mut pen = desk.pen.lock();
        if !matches!(*pen, Pen::Free) {
            return Err(self.changes.silent());
        }
        *pen = Pen::Writing;
        let (writer, next) = (self.changes.clone(), Arc::clone(next));
        let thread = thread::Builder::new().name("live".to_owned());
        if let Err(source) = thread.spawn(move || {
            writer.desk.write(&next);
            writer.settle_later();
        }) {
            *pen = Pen::Free;
            let path = self.changes.now().path().unwrap_or_default();
            return Err(KeepError::Write { path, source });
        }
        let is_writing = |pen: &mut Pen| matches!(pen, Pen::Writing);
        desk.news
            .wait_while_for(&mut pen, is_writing, desk.write_max);
        match std::mem::replace(&mut *pen, Pen::Free) {
            Pen::Wrote(wrote) => wrote,
            _ => {
                *pen = Pen::GivenUp;
                drop(pen);
                Err(self.changes.silent())
            }
        }
    }
}

impl Desk {
    fn write(&self, next: &Live) {
        let wrote = (self.write)(next);
        let is_in_doubt = matches!(wrote, Err(KeepError::Unsure { .. }));
        self.is_in_doubt.store(is_in_doubt, Ordering::Relaxed);
        let mut pen = self.pen.lock();
        if matches!(*pen, Pen::Writing) {
            *pen = Pen::Wrote(wrote);
            self.news.notify_all();
            return;
        }
        drop(pen);
        if wrote.is_ok() {
            self.put_back();
        }
        *self.pen.lock() = Pen::Free;
    }

    /// Writes what holds over a change that was refused for its delay.
    fn put_back(&self) {
        let holds = Arc::clone(&self.shown.lock());
        match (self.write)(&holds) {
            Ok(()) => tracing::info!("the state folder answers again"),
            Err(error) => {
                self.is_in_doubt.store(true, Ordering::Relaxed);
                tracing::error!(%error, "live.toml has a change that was refused, as the state folder did not answer in time");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;
    use std::time::Instant;

    use sublet_types::{TenantName, Weight};

    use super::*;
    use crate::config::TenantChange;

    fn web() -> TenantName {
        "web".parse().expect("a name")
    }

    fn weight(n: u32) -> impl Fn(&Live) -> Live {
        let change = TenantChange {
            weight: Some(Weight(n)),
            ..TenantChange::default()
        };
        move |live| live.with_change(web(), &change)
    }

    /// A folder that hangs in a write until it is told to go on, and tells of each write that ended.
    fn hanging() -> (Changes, mpsc::Sender<()>, mpsc::Receiver<Option<Weight>>) {
        let (go_on, told) = mpsc::channel::<()>();
        let (tell, written) = mpsc::channel();
        let told = Mutex::new(told);
        let write = move |live: &Live| {
            let _ = told.lock().recv();
            let _ = tell.send(live.change(&web()).weight);
            Ok(())
        };
        let patience = Duration::from_millis(50);
        let changes = Changes::written_by(Live::none(None), patience, Box::new(write));
        (changes, go_on, written)
    }

    #[test]
    fn what_a_failed_write_may_have_left_is_written_over() {
        let (tell, written) = mpsc::channel();
        let write = move |live: &Live| {
            let weight = live.change(&web()).weight;
            let _ = tell.send(weight);
            let source = io::ErrorKind::Other.into();
            let path = PathBuf::new();
            match weight {
                Some(_) => Err(KeepError::Unsure { path, source }),
                None => Ok(()),
            }
        };
        let changes = Changes::written_by(Live::none(None), WRITE_MAX, Box::new(write));
        changes.keep(weight(7)).expect_err("it is refused");
        for _ in 0..2 {
            changes
                .keep(|live| live.with_folder(PathBuf::from("/vm")))
                .expect("kept");
        }
        let writes: Vec<_> = written.try_iter().collect();
        assert_eq!(writes, [Some(Weight(7)), None]);
    }

    /// As `live.toml` that was replaced, though nobody knows whether that outlasts a crash.
    #[test]
    fn a_refused_change_is_written_over_though_nobody_changes_anything_more() {
        let (tell, written) = mpsc::channel();
        let left = AtomicBool::new(true);
        let write = move |live: &Live| {
            let _ = tell.send(live.change(&web()).weight);
            let (path, source) = (PathBuf::new(), io::ErrorKind::Other.into());
            match left.swap(live.change(&web()).weight.is_some(), Ordering::Relaxed) {
                true => Err(KeepError::Unsure { path, source }),
                false => Ok(()),
            }
        };
        let changes = Changes::written_by(Live::none(None), WRITE_MAX, Box::new(write));
        changes.keep(weight(7)).expect_err("it is refused");
        let until = Instant::now() + Duration::from_secs(60);
        while changes.desk.is_settling.load(Ordering::Acquire)
            || changes.desk.is_in_doubt.load(Ordering::Relaxed)
        {
            assert!(Instant::now() < until, "it is in doubt still");
            thread::yield_now();
        }
        let writes: Vec<_> = written.try_iter().collect();
        assert_eq!(writes, [Some(Weight(7)), None, None]);
    }

    #[test]
    fn a_folder_that_hangs_delays_nobody_who_looks_and_its_change_is_taken_back() {
        let (changes, go_on, written) = hanging();
        for n in 7..9 {
            let kept = changes.keep(weight(n));
            assert!(matches!(kept, Err(KeepError::Silent(_))), "{kept:?}");
            assert_eq!(changes.now().change(&web()).weight, None);
        }
        // The second one was refused before anything was written: only the first is written late, and put back.
        go_on.send(()).expect("it waits");
        go_on.send(()).expect("it waits");
        let writes: Vec<_> = written.iter().take(2).collect();
        assert_eq!(writes, [Some(Weight(7)), None]);

        let until = Instant::now() + Duration::from_secs(20);
        go_on.send(()).expect("it waits");
        while changes.keep(weight(9)).is_err() {
            assert!(Instant::now() < until, "no change is kept any more");
            thread::yield_now();
        }
        assert_eq!(changes.now().change(&web()).weight, Some(Weight(9)));
    }
}
