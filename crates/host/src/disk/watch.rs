//! What befalls disks from outside while they are served: a note in the state folder that cannot be written, a backing that
//! is at its path no more. Each disk has a thread for both, so that a file system that hangs holds up nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use sublet_types::DiskName;

use super::backed::Backed;
use super::backing::AtPath;
use super::disk_events::DiskEvents;
use super::plight::Plight;
use super::served::Served;
use super::stage::{Pledge, Pledges};
use crate::observe::events::{Cause, EventId, Why};

/// How often a note that is owed is tried again, and how often it is looked where backings are.
const PAUSE: Duration = Duration::from_secs(1);

/// What the thread of a disk needs at most. Beside a swapping guest all of it stays in memory.
const STACK: usize = 256 << 10;

/// How long a disk waits for its first notes, and goes on without them: serving begins with a state folder that hangs.
const FIRST_MAX: Duration = Duration::from_secs(2);

/// The same where another disk's are not written either.
const ANOTHER_MAX: Duration = Duration::from_millis(100);

/// How long the end of all disks waits for notes that are being written.
const END_MAX: Duration = Duration::from_secs(1);

/// What the next daemon has to know of a swap disk.
pub(super) struct Notes {
    /// That it may have pages on the stage only, where it may.
    pub(super) pledge: Option<Pledge>,
    /// Where its bytes are.
    pub(super) backing: String,
    /// What tells that from others.
    pub(super) mark: u64,
}

/// Who looks after disks while there are any.
pub(super) struct Watch {
    books: Books,
    wards: Mutex<BTreeMap<DiskName, Arc<Ward>>>,
}

/// Where notes are written.
#[derive(Clone)]
struct Books {
    pledges: Pledges,
    served: Served,
}

/// A disk that is looked after. Nothing of it is held that would keep it open.
struct Ward {
    name: DiskName,
    events: DiskEvents,
    plight: Arc<Plight>,
    backing: AtPath,
    has_thread: AtomicBool,
    /// Locked while a note of this disk is written, and for no other's.
    state: Mutex<State>,
    news: Condvar,
}

struct State {
    owed: Option<Notes>,
    /// Told when they were tried for the first time.
    tried: Option<Sender<()>>,
    is_over: bool,
}

impl Watch {
    pub(super) fn of(pledges: &Pledges, served: &Served) -> Watch {
        Watch {
            books: Books {
                pledges: pledges.clone(),
                served: served.clone(),
            },
            wards: Mutex::default(),
        }
    }

    /// Has the notes of a disk written that is about to be served, and looks after it from now on. Without its notes it
    /// makes no promise that would rest on them, until they are written.
    pub(super) fn begin(&self, disk: &Backed, notes: Option<Notes>) {
        let plight = &disk.plight;
        let is_owed = notes.is_some();
        let at_path = disk.backing.at_path();
        let (name, events) = (&disk.settings.name, disk.events.clone());
        let ward = Ward::new(name, events, plight, at_path, notes);
        if is_owed {
            self.look_after_first(ward);
        } else {
            self.look_after(ward);
        }
        if plight.is_unnoted() {
            let why = plight.said(disk.settings.durability());
            let says = |ails: Cause| ails.saying(why.join("; "));
            disk.events.post(EventId::DiskAiling, Why::Note, says);
        }
    }

    /// Returns when its first notes were tried, or take too long.
    fn look_after_first(&self, ward: Ward) {
        let (tell, tried) = mpsc::channel();
        ward.state.lock().tried = Some(tell);
        let plight = Arc::clone(&ward.plight);
        plight.owe();
        let others = self.wards.lock();
        let patience = match others.values().any(|other| other.plight.is_unnoted()) {
            true => ANOTHER_MAX,
            false => FIRST_MAX,
        };
        drop(others);
        self.look_after(ward);
        if tried.recv_timeout(patience).is_err() {
            plight.wait_on();
        }
    }

    fn look_after(&self, ward: Ward) {
        let mut wards = self.wards.lock();
        wards.insert(ward.name.clone(), Arc::new(ward));
        for ward in wards.values() {
            if !ward.has_thread.load(Ordering::Relaxed) {
                let has_thread = ward.spawn(&self.books);
                ward.has_thread.store(has_thread, Ordering::Relaxed);
            }
        }
    }

    /// A disk is served no more. No note of it is written when this returns.
    pub(super) fn end(&self, name: &DiskName) {
        let ward = self.wards.lock().remove(name);
        if let Some(ward) = ward {
            ward.end(&mut ward.state.lock());
        }
    }

    /// No disk is served any more. A note whose file system hangs may still be under way.
    pub(super) fn end_all(&self) {
        let wards = std::mem::take(&mut *self.wards.lock());
        let until = Instant::now() + END_MAX;
        for ward in wards.values() {
            match ward.state.try_lock_until(until) {
                Some(mut state) => ward.end(&mut state),
                None => {
                    tracing::error!(disk = %ward.name, "a note of a disk is left: its file system does not answer")
                }
            }
        }
    }
}

impl Ward {
    fn new(
        name: &DiskName,
        events: DiskEvents,
        plight: &Arc<Plight>,
        backing: AtPath,
        owed: Option<Notes>,
    ) -> Ward {
        Ward {
            name: name.clone(),
            events,
            plight: Arc::clone(plight),
            backing,
            has_thread: AtomicBool::new(false),
            state: Mutex::new(State {
                owed,
                tried: None,
                is_over: false,
            }),
            news: Condvar::new(),
        }
    }

    fn spawn(self: &Arc<Ward>, books: &Books) -> bool {
        let (ward, books) = (Arc::clone(self), books.clone());
        let thread = thread::Builder::new()
            .name("disk-watch".to_owned())
            .stack_size(STACK);
        let spawned = thread.spawn(move || ward.look_after(&books));
        if let Err(error) = &spawned {
            tracing::warn!(disk = %self.name, %error, "no thread looks after the disk until the next one is added");
        }
        spawned.is_ok()
    }

    /// Ends with the disk.
    fn look_after(&self, books: &Books) {
        let mut state = self.state.lock();
        while !state.is_over {
            self.leave_notes(&mut state, books);
            MutexGuard::unlocked(&mut state, || self.look());
            if !state.is_over {
                self.news.wait_for(&mut state, PAUSE);
            }
        }
    }

    fn end(&self, state: &mut State) {
        state.is_over = true;
        self.news.notify_all();
    }

    fn leave_notes(&self, state: &mut State, books: &Books) {
        let Some(notes) = &state.owed else {
            return;
        };
        let name = &self.name;
        let pledged = notes
            .pledge
            .as_ref()
            .map_or(Ok(()), |pledge| books.pledges.make(name, pledge));
        let served = || books.served.note_on(name, &notes.backing, notes.mark);
        let noted = pledged.and_then(|()| served());
        let was_told = self.plight.note(&noted);
        drop(state.tried.take());
        if noted.is_ok() {
            state.owed = None;
            if was_told {
                let notes =
                    "the notes of a disk are written: it acknowledges as its durability says";
                let says = |well: Cause| well.saying(notes);
                self.events.post(EventId::DiskRecovered, Why::Note, says);
            }
        }
    }

    /// Looks whether the path still leads to the backing, and tells the log when that changes.
    fn look(&self) {
        let astray = self.backing.look();
        let before = std::mem::replace(&mut *self.plight.astray.lock(), astray);
        let backing = self.backing.path().display();
        match astray {
            _ if astray == before => {}
            Some(astray) => {
                let says = |ails: Cause| {
                    ails.saying(format_args!("{backing}: a disk is served on, but {astray}"))
                };
                self.events.post(EventId::DiskAiling, Why::Path, says);
            }
            None => {
                let says = |well: Cause| {
                    well.saying(format_args!("{backing}: the backing is at its path again"))
                };
                self.events.post(EventId::DiskRecovered, Why::Path, says);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::{Path, PathBuf};

    use sublet_types::Durability;

    use super::super::backing::Astray;
    use super::*;
    use crate::config::Claim;

    /// A disk with a file of its own that owes the note that it is served.
    fn ward(folder: &Path, name: &str) -> Ward {
        let file = folder.join(name);
        std::fs::write(&file, [0; 8192]).expect("written");
        let owed = Notes {
            pledge: None,
            backing: file.display().to_string(),
            mark: 7,
        };
        let name = name.parse().expect("a name");
        let backing = AtPath::of(&file).expect("there");
        Ward::new(
            &name,
            DiskEvents::of_none(),
            &Arc::default(),
            backing,
            Some(owed),
        )
    }

    /// A state folder in which nothing can be written yet.
    fn blocked(folder: &Path) -> (PathBuf, Watch) {
        let state = folder.join("state");
        std::fs::write(&state, b"in the way").expect("written");
        let claim = Claim::to(Some(state.clone()));
        let watch = Watch::of(&Pledges::of(&claim), &Served::of(&claim));
        (state, watch)
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn a_note_that_is_owed_is_written_when_it_can_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, watch) = blocked(folder.path());
        let ward = ward(folder.path(), "swap");
        let leave = || {
            let mut state = ward.state.lock();
            ward.leave_notes(&mut state, &watch.books);
            state.owed.is_some()
        };
        assert!(leave() && ward.plight.is_unnoted());
        let said = ward.plight.said(Durability::WriteBehind).join("");
        assert!(said.starts_with("writes go to its backing"), "{said}");
        std::fs::remove_file(&state).expect("removed");
        assert!(!leave() && !ward.plight.is_unnoted());
        assert!(ward.plight.said(Durability::WriteBehind).is_empty());
    }

    /// One's backing hangs when it is looked at, and another's note when it is written.
    #[test]
    fn a_disk_whose_file_system_hangs_holds_up_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, watch) = blocked(folder.path());
        let [first, hangs, writes, last] =
            ["a", "b", "c", "d"].map(|name| ward(folder.path(), name));
        let plights = [&first, &hangs, &writes, &last].map(|ward| Arc::clone(&ward.plight));
        let names = [&first, &hangs, &writes, &last].map(|ward| ward.name.clone());
        for plight in &plights {
            plight.note(&Err(io::ErrorKind::NotADirectory.into()));
        }
        let looked_at = plights[1].astray.lock();
        for ward in [first, hangs, writes, last] {
            watch.look_after(ward);
        }
        let writing = Arc::clone(&watch.wards.lock()[&names[2]]);
        let written = writing.state.lock();
        std::fs::remove_file(folder.path().join("a")).expect("removed");
        until("the first is looked at", || plights[0].astray().is_some());
        std::fs::remove_file(&state).expect("removed");
        until("the last one's note", || !plights[3].is_unnoted());
        watch.end(&names[3]);
        watch.end_all();
        assert!(watch.wards.lock().is_empty());
        assert!(plights[2].is_unnoted());
        drop((looked_at, written));
        writing.end(&mut writing.state.lock());
    }

    #[test]
    fn a_path_leads_to_its_file_to_another_or_to_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, away) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, b"one").expect("written");
        let at = AtPath::of(&path).expect("there");
        assert_eq!(at.look(), None);
        std::fs::rename(&path, &away).expect("moved");
        assert_eq!(at.look(), Some(Astray::Gone));
        std::fs::write(&path, b"two").expect("written");
        assert_eq!(at.look(), Some(Astray::Replaced));
        std::fs::rename(&away, &path).expect("moved back");
        assert_eq!(at.look(), None);
    }
}
