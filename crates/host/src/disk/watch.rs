//! Watches disks from outside while they are served: a note in the state folder that cannot be written, or a backing
//! that is no longer at its path. Each disk has a thread for both, so that a file system that hangs holds up no other
//! disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use sublet_types::DiskName;

use super::backed_disk::BackedDisk;
use super::backing::BackingPath;
use super::disk_events::DiskEvents;
use super::disk_problems::DiskProblems;
use super::served_notes::ServedNotes;
use super::stage::{StageNote, StageNotes};
use crate::observe::events::{EventId, EventReason, PostedEvent};

/// How often an owed note is tried again, and how often the paths of backings are checked.
const PAUSE: Duration = Duration::from_secs(1);

/// The most stack that the thread of a disk needs. Beside a swapping guest all of it stays in memory.
const STACK: usize = 256 << 10;

/// How long a disk waits for its first notes before it goes on without them. So serving begins even with a state folder
/// that hangs.
const FIRST_MAX: Duration = Duration::from_secs(2);

/// The same if another disk's notes are not written either.
const ANOTHER_MAX: Duration = Duration::from_millis(100);

/// How long the end of all disks waits for notes that are being written.
const END_MAX: Duration = Duration::from_secs(1);

/// What the next daemon must know of a swap disk.
pub(super) struct DiskNotes {
    /// The note that the disk may have pages only on the stage, if it may.
    pub(super) stage_note: Option<StageNote>,
    /// Where the disk's bytes are.
    pub(super) backing: String,
    /// The mark that tells the backing from others.
    pub(super) mark: u64,
}

/// Watches disks while there are any.
pub(super) struct DiskWatch {
    note_stores: NoteStores,
    disks: Mutex<BTreeMap<DiskName, Arc<WatchedDisk>>>,
}

/// Where notes are written.
#[derive(Clone)]
struct NoteStores {
    stage_notes: StageNotes,
    served: ServedNotes,
}

/// A watched disk. It holds nothing that would keep the disk open.
struct WatchedDisk {
    name: DiskName,
    events: DiskEvents,
    problems: Arc<DiskProblems>,
    backing: BackingPath,
    has_thread: AtomicBool,
    /// Locked while a note of this disk is written, and for no other disk's note.
    state: Mutex<WatchState>,
    news: Condvar,
}

struct WatchState {
    owed: Option<DiskNotes>,
    /// Told when the notes were tried for the first time.
    tried: Option<Sender<()>>,
    is_over: bool,
}

impl DiskWatch {
    pub(super) fn of(stage_notes: &StageNotes, served: &ServedNotes) -> DiskWatch {
        DiskWatch {
            note_stores: NoteStores {
                stage_notes: stage_notes.clone(),
                served: served.clone(),
            },
            disks: Mutex::default(),
        }
    }

    /// Writes the notes of a disk that is about to be served, and watches the disk from now on. Until its notes are
    /// written, the disk makes no promise that rests on them.
    pub(super) fn watch(&self, disk: &BackedDisk, notes: Option<DiskNotes>) {
        let problems = &disk.problems;
        let is_owed = notes.is_some();
        let at_path = disk.backing.at_path();
        let (name, events) = (&disk.settings.name, disk.events.clone());
        let watched = WatchedDisk::new(name, events, problems, at_path, notes);
        if is_owed {
            self.watch_new(watched);
        } else {
            self.add(watched);
        }
        if problems.is_unnoted() {
            let why = problems.describe(disk.settings.durability());
            let says = |ails: PostedEvent| ails.saying(why.join("; "));
            disk.events
                .post(EventId::DiskAiling, EventReason::Note, says);
        }
    }

    /// Returns when the disk's first notes were tried, or take too long.
    fn watch_new(&self, watched: WatchedDisk) {
        let (tell, tried) = mpsc::channel();
        watched.state.lock().tried = Some(tell);
        let problems = Arc::clone(&watched.problems);
        problems.mark_unnoted();
        let others = self.disks.lock();
        let patience = match others.values().any(|other| other.problems.is_unnoted()) {
            true => ANOTHER_MAX,
            false => FIRST_MAX,
        };
        drop(others);
        self.add(watched);
        if tried.recv_timeout(patience).is_err() {
            problems.mark_overdue();
        }
    }

    fn add(&self, watched: WatchedDisk) {
        let mut watched_disks = self.disks.lock();
        watched_disks.insert(watched.name.clone(), Arc::new(watched));
        for watched in watched_disks.values() {
            if !watched.has_thread.load(Ordering::Relaxed) {
                let has_thread = watched.spawn(&self.note_stores);
                watched.has_thread.store(has_thread, Ordering::Relaxed);
            }
        }
    }

    /// Call this when a disk is no longer served. No note of it is written after this returns.
    pub(super) fn end(&self, name: &DiskName) {
        let watched = self.disks.lock().remove(name);
        if let Some(watched) = watched {
            watched.end(&mut watched.state.lock());
        }
    }

    /// Call this when no disk is served any more. A note whose file system hangs may still be under way.
    pub(super) fn end_all(&self) {
        let watched_disks = std::mem::take(&mut *self.disks.lock());
        let until = Instant::now() + END_MAX;
        for watched in watched_disks.values() {
            match watched.state.try_lock_until(until) {
                Some(mut state) => watched.end(&mut state),
                None => {
                    tracing::error!(disk = %watched.name, waited = ?END_MAX, "a note of the disk is left under way because the state folder's file system does not answer; the daemon ends without it: check that file system")
                }
            }
        }
    }
}

impl WatchedDisk {
    fn new(
        name: &DiskName,
        events: DiskEvents,
        problems: &Arc<DiskProblems>,
        backing: BackingPath,
        owed: Option<DiskNotes>,
    ) -> WatchedDisk {
        WatchedDisk {
            name: name.clone(),
            events,
            problems: Arc::clone(problems),
            backing,
            has_thread: AtomicBool::new(false),
            state: Mutex::new(WatchState {
                owed,
                tried: None,
                is_over: false,
            }),
            news: Condvar::new(),
        }
    }

    fn spawn(self: &Arc<WatchedDisk>, note_stores: &NoteStores) -> bool {
        let (watched, note_stores) = (Arc::clone(self), note_stores.clone());
        let thread = thread::Builder::new()
            .name("disk-watch".to_owned())
            .stack_size(STACK);
        let spawned = thread.spawn(move || watched.run(&note_stores));
        if let Err(error) = &spawned {
            tracing::warn!(disk = %self.name, %error, "the daemon cannot make a thread that watches the disk's backing, and tries again when the next disk is added; `sublet doctor` checks the limits");
        }
        spawned.is_ok()
    }

    /// The thread of a disk. It ends with the disk.
    fn run(&self, note_stores: &NoteStores) {
        let mut state = self.state.lock();
        while !state.is_over {
            self.write_notes(&mut state, note_stores);
            MutexGuard::unlocked(&mut state, || self.check_path());
            if !state.is_over {
                self.news.wait_for(&mut state, PAUSE);
            }
        }
    }

    fn end(&self, state: &mut WatchState) {
        state.is_over = true;
        self.news.notify_all();
    }

    fn write_notes(&self, state: &mut WatchState, note_stores: &NoteStores) {
        let Some(notes) = &state.owed else {
            return;
        };
        let name = &self.name;
        let pledged = notes
            .stage_note
            .as_ref()
            .map_or(Ok(()), |note| note_stores.stage_notes.write(name, note));
        let served = || note_stores.served.write(name, &notes.backing, notes.mark);
        let noted = pledged.and_then(|()| served());
        let was_told = self.problems.record_notes_result(&noted);
        drop(state.tried.take());
        if noted.is_ok() {
            state.owed = None;
            if was_told {
                let notes =
                    "the notes of a disk are written: it acknowledges as its durability says";
                let says = |well: PostedEvent| well.saying(notes);
                self.events
                    .post(EventId::DiskRecovered, EventReason::Note, says);
            }
        }
    }

    /// Checks whether the path still leads to the backing, and logs when that changes.
    fn check_path(&self) {
        let astray = self.backing.check();
        let before = std::mem::replace(&mut *self.problems.path_mismatch.lock(), astray);
        let backing = self.backing.path().display();
        match astray {
            _ if astray == before => {}
            Some(astray) => {
                let says = |ails: PostedEvent| {
                    ails.saying(format_args!("{backing}: a disk is served on, but {astray}"))
                };
                self.events
                    .post(EventId::DiskAiling, EventReason::Path, says);
            }
            None => {
                let says = |well: PostedEvent| {
                    well.saying(format_args!("{backing}: the backing is at its path again"))
                };
                self.events
                    .post(EventId::DiskRecovered, EventReason::Path, says);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::{Path, PathBuf};

    use sublet_types::Durability;

    use super::super::backing::PathMismatch;
    use super::*;
    use crate::config::StateFolderClaim;
    use crate::wait_until::wait_until;

    /// A disk with a file of its own that owes the note that it is served.
    fn watched(folder: &Path, name: &str) -> WatchedDisk {
        let file = folder.join(name);
        std::fs::write(&file, [0; 8192]).expect("written");
        let owed = DiskNotes {
            stage_note: None,
            backing: file.display().to_string(),
            mark: 7,
        };
        let name = name.parse().expect("a name");
        let backing = BackingPath::of(&file).expect("there");
        WatchedDisk::new(
            &name,
            DiskEvents::of_none(),
            &Arc::default(),
            backing,
            Some(owed),
        )
    }

    /// A state folder in which nothing can be written yet.
    fn blocked(folder: &Path) -> (PathBuf, DiskWatch) {
        let state = folder.join("state");
        std::fs::write(&state, b"in the way").expect("written");
        let claim = StateFolderClaim::for_folder(Some(state.clone()));
        let watch = DiskWatch::of(&StageNotes::of(&claim), &ServedNotes::of(&claim));
        (state, watch)
    }

    #[test]
    fn a_note_that_is_owed_is_written_when_it_can_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, watch) = blocked(folder.path());
        let watched = watched(folder.path(), "swap");
        let leave = || {
            let mut state = watched.state.lock();
            watched.write_notes(&mut state, &watch.note_stores);
            state.owed.is_some()
        };
        assert!(leave() && watched.problems.is_unnoted());
        let said = watched.problems.describe(Durability::WriteBehind).join("");
        assert!(said.starts_with("writes go to its backing"), "{said}");
        std::fs::remove_file(&state).expect("removed");
        assert!(!leave() && !watched.problems.is_unnoted());
        assert!(
            watched
                .problems
                .describe(Durability::WriteBehind)
                .is_empty()
        );
    }

    /// One disk's backing hangs when its path is checked. Another disk's note hangs when it is written.
    #[test]
    fn a_disk_whose_file_system_hangs_holds_up_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, watch) = blocked(folder.path());
        let [first, hangs, writes, last] =
            ["a", "b", "c", "d"].map(|name| watched(folder.path(), name));
        let all_problems =
            [&first, &hangs, &writes, &last].map(|watched| Arc::clone(&watched.problems));
        let names = [&first, &hangs, &writes, &last].map(|watched| watched.name.clone());
        for problems in &all_problems {
            problems.record_notes_result(&Err(io::ErrorKind::NotADirectory.into()));
        }
        let looked_at = all_problems[1].path_mismatch.lock();
        for watched in [first, hangs, writes, last] {
            watch.add(watched);
        }
        let writing = Arc::clone(&watch.disks.lock()[&names[2]]);
        let written = writing.state.lock();
        std::fs::remove_file(folder.path().join("a")).expect("removed");
        wait_until("the first is looked at", || {
            all_problems[0].path_mismatch().is_some()
        });
        std::fs::remove_file(&state).expect("removed");
        wait_until("the last one's note", || !all_problems[3].is_unnoted());
        watch.end(&names[3]);
        watch.end_all();
        assert!(watch.disks.lock().is_empty());
        assert!(all_problems[2].is_unnoted());
        drop((looked_at, written));
        writing.end(&mut writing.state.lock());
    }

    #[test]
    fn a_path_leads_to_its_file_to_another_or_to_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, away) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, b"one").expect("written");
        let at = BackingPath::of(&path).expect("there");
        assert_eq!(at.check(), None);
        std::fs::rename(&path, &away).expect("moved");
        assert_eq!(at.check(), Some(PathMismatch::Gone));
        std::fs::write(&path, b"two").expect("written");
        assert_eq!(at.check(), Some(PathMismatch::Replaced));
        std::fs::rename(&away, &path).expect("moved back");
        assert_eq!(at.check(), None);
    }
}
