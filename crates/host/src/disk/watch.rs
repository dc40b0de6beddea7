//! What befalls disks from outside while they are served: a note in the state folder that cannot be written, a backing that
//! is at its path no more. One thread looks after both, so that a file system that hangs holds up nobody else.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use sublet_types::{DiskName, Durability};

use super::backed::Backed;
use super::backing::{Astray, AtPath};
use super::served::Served;
use super::stage::{Pledge, Pledges};

/// How often a note that is owed is tried again, and how often it is looked where backings are.
const PAUSE: Duration = Duration::from_secs(1);

/// What is wrong around a disk that is served.
#[derive(Debug, Default)]
pub(super) struct Plight {
    is_unnoted: AtomicBool,
    /// Why its notes cannot be written.
    unnoted: Mutex<Option<String>>,
    astray: Mutex<Option<Astray>>,
}

impl Plight {
    /// Whether a note is missing that its promise rests on.
    pub(super) fn is_unnoted(&self) -> bool {
        self.is_unnoted.load(Ordering::Acquire)
    }

    /// What became of its backing's path, if it leads to the backing no more.
    pub(super) fn astray(&self) -> Option<Astray> {
        *self.astray.lock()
    }

    /// In words, for whoever asks how the disk is.
    pub(super) fn said(&self, durability: Durability) -> Vec<String> {
        let unnoted = self.unnoted.lock();
        let unnoted = unnoted.as_ref().map(|error| match durability {
            Durability::WriteThrough => format!(
                "the note that it is served cannot be written, so that nobody would see its backing vanish while no daemon runs: {error}; that is tried again every second"
            ),
            _ => format!(
                "writes go to its backing before they are acknowledged, for the note on pages that only memory has cannot be written: {error}; that is tried again every second"
            ),
        });
        let astray = self.astray().map(|astray| astray.to_string());
        unnoted.into_iter().chain(astray).collect()
    }

    fn note(&self, noted: &io::Result<()>) {
        *self.unnoted.lock() = noted.as_ref().err().map(io::Error::to_string);
        self.is_unnoted.store(noted.is_err(), Ordering::Release);
    }
}

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
pub(super) struct Watch(Arc<Shared>);

struct Shared {
    pledges: Pledges,
    served: Served,
    watched: Mutex<Watched>,
    news: Condvar,
}

#[derive(Default)]
struct Watched {
    disks: BTreeMap<DiskName, Ward>,
    /// Those that are looked at, made anew with each change: a look allocates nothing beside a swapping guest.
    looks: Arc<Vec<Look>>,
    has_thread: bool,
}

/// A backing that is looked for at its path.
struct Look {
    name: DiskName,
    plight: Arc<Plight>,
    backing: AtPath,
}

impl Watched {
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<DiskName, Ward>)) {
        change(&mut self.disks);
        let looks = self.disks.iter().map(|(name, ward)| Look {
            name: name.clone(),
            plight: Arc::clone(&ward.plight),
            backing: ward.backing.clone(),
        });
        self.looks = Arc::new(looks.collect());
    }
}

/// A disk that is looked after. Nothing of it is held that would keep it open.
struct Ward {
    plight: Arc<Plight>,
    backing: AtPath,
    owed: Option<Notes>,
}

impl Watch {
    pub(super) fn of(pledges: &Pledges, served: &Served) -> Watch {
        Watch(Arc::new(Shared {
            pledges: pledges.clone(),
            served: served.clone(),
            watched: Mutex::default(),
            news: Condvar::new(),
        }))
    }

    /// Writes the notes of a disk that is about to be served, and looks after it from now on. Without its notes it makes no
    /// promise that would rest on them, until they can be written.
    pub(super) fn begin(&self, disk: &Backed, notes: Option<Notes>) {
        let name = &disk.settings.name;
        let mut watched = self.0.watched.lock();
        let mut ward = Ward {
            plight: Arc::clone(&disk.plight),
            backing: disk.backing.at_path(),
            owed: notes,
        };
        self.0.leave_notes(name, &mut ward);
        if ward.owed.is_some() {
            let why = ward.plight.said(disk.settings.durability());
            tracing::warn!(disk = %name, "{}", why.join("; "));
        }
        watched.change(|disks| _ = disks.insert(name.clone(), ward));
        if !watched.has_thread {
            watched.has_thread = self.spawn();
        }
    }

    fn spawn(&self) -> bool {
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("disk-watch".to_owned());
        let spawned = thread.spawn(move || shared.look_after());
        if let Err(error) = &spawned {
            tracing::warn!(%error, "no thread looks after disks until the next one is added");
        }
        spawned.is_ok()
    }

    /// A disk is served no more. No note of it is written when this returns.
    pub(super) fn end(&self, name: &DiskName) {
        let mut watched = self.0.watched.lock();
        watched.change(|disks| _ = disks.remove(name));
        self.0.news.notify_all();
    }

    /// No disk is served any more.
    pub(super) fn end_all(&self) {
        self.0.watched.lock().change(BTreeMap::clear);
        self.0.news.notify_all();
    }
}

impl Shared {
    /// Ends with the last disk.
    fn look_after(&self) {
        let mut watched = self.watched.lock();
        loop {
            if watched.disks.is_empty() {
                watched.has_thread = false;
                return;
            }
            self.news.wait_for(&mut watched, PAUSE);
            for (name, ward) in &mut watched.disks {
                self.leave_notes(name, ward);
            }
            let looks = Arc::clone(&watched.looks);
            MutexGuard::unlocked(&mut watched, || looks.iter().for_each(Look::look));
        }
    }

    fn leave_notes(&self, name: &DiskName, ward: &mut Ward) {
        let Some(notes) = &ward.owed else {
            return;
        };
        let pledged = notes
            .pledge
            .as_ref()
            .map_or(Ok(()), |pledge| self.pledges.make(name, pledge));
        let served = || self.served.note_on(name, &notes.backing, notes.mark);
        let noted = pledged.and_then(|()| served());
        let was_unnoted = ward.plight.is_unnoted();
        ward.plight.note(&noted);
        if noted.is_ok() {
            ward.owed = None;
            if was_unnoted {
                tracing::info!(disk = %name, "the notes of a disk are written: it acknowledges as its durability says");
            }
        }
    }
}

impl Look {
    /// Looks whether the path still leads to the backing, and tells the log when that changes.
    fn look(&self) {
        let astray = self.backing.look();
        let before = std::mem::replace(&mut *self.plight.astray.lock(), astray);
        let (disk, backing) = (&self.name, self.backing.path().display());
        match astray {
            _ if astray == before => {}
            Some(astray) => {
                tracing::warn!(%disk, %backing, "a disk is served on, but {astray}")
            }
            None => {
                tracing::info!(%disk, %backing, "the backing is at its path again")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Claim;

    #[test]
    fn a_note_that_is_owed_is_written_when_it_can_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        std::fs::write(&state, b"in the way").expect("written");
        let claim = Claim::to(Some(state.clone()));
        let watch = Watch::of(&Pledges::of(&claim), &Served::of(&claim));
        let file = folder.path().join("backing");
        std::fs::write(&file, [0; 8192]).expect("written");
        let name: DiskName = "swap".parse().expect("a name");
        let mut ward = Ward {
            plight: Arc::default(),
            backing: AtPath::of(&file).expect("there"),
            owed: Some(Notes {
                pledge: None,
                backing: file.display().to_string(),
                mark: 7,
            }),
        };
        watch.0.leave_notes(&name, &mut ward);
        assert!(ward.plight.is_unnoted() && ward.owed.is_some());
        let said = ward.plight.said(Durability::WriteBehind).join("");
        assert!(said.starts_with("writes go to its backing"), "{said}");
        std::fs::remove_file(&state).expect("removed");
        watch.0.leave_notes(&name, &mut ward);
        assert!(!ward.plight.is_unnoted() && ward.owed.is_none());
        assert!(ward.plight.said(Durability::WriteBehind).is_empty());
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
