//! Claims the state folder for one daemon, from its start to its end. A second daemon would take what it found there
//! for its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::config::{LoadError, LoadedConfig, PersistError, StateFolderClaim};
use crate::retry::retry_for_killed_daemon;
use crate::stuck::{self, StuckProcess};

/// How long the folder's file system may take to answer. The daemon starts even if the file system hangs.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long the search for the process that has the folder may take. It reads at most all that all processes have open.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Why the state folder cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// `live.toml` was changed while another daemon had the folder, and makes no sense.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The state folder belongs to a daemon that was killed and cannot end.
    #[error("the state folder {} is not free: {stuck}", folder.display())]
    Stuck {
        /// The folder.
        folder: PathBuf,
        /// The process that has it.
        stuck: StuckProcess,
    },
    /// The state folder belongs to a daemon that runs.
    #[error("another sublet{} keeps its state in {}; stop it, or give this one a folder of its own: sublet serve --state FOLDER", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The process that has it.
        pid: Option<u32>,
    },
    /// The system refused a thread.
    #[error("the system refused a thread: {0}")]
    System(#[from] io::Error),
}

/// The process that has the folder.
enum FolderHolder {
    Stuck(StuckProcess),
    Lives(Option<u32>),
}

/// The result of the claim.
enum ClaimOutcome {
    /// This also stands for a folder that takes no claim, because it cannot be written.
    Ours,
    Shared,
}

/// Claims the state folder, if there is one. If a daemon was killed a moment ago, this waits for its end and reads what
/// it kept meanwhile. The daemon also serves if the folder cannot be written and so takes no claim, because nothing can
/// be kept there.
pub(crate) fn claim(loaded: LoadedConfig) -> Result<LoadedConfig, StateError> {
    let state = loaded.live.state().clone();
    let Some(folder) = state.folder().map(PathBuf::from) else {
        return Ok(loaded);
    };
    let laid = run_within(ANSWER_MAX, {
        let state = state.clone();
        move || acquire(&state)
    })?;
    match laid {
        Some(ClaimOutcome::Ours) => Ok(loaded.reload()?),
        Some(ClaimOutcome::Shared) => Err(held_error(folder, state)),
        None => {
            tracing::warn!(folder = %folder.display(), waited = ?ANSWER_MAX, "the state folder does not answer and is not claimed yet; the daemon starts without waiting longer: check its file system");
            Ok(loaded)
        }
    }
}

/// The result of `work`, if it comes in time. The work may touch a file system that hangs.
fn run_within<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (answer, said) = mpsc::channel();
    let thread = thread::Builder::new().name("state".into());
    thread.spawn(move || _ = answer.send(work()))?;
    Ok(said.recv_timeout(most).ok())
}

fn acquire(state: &StateFolderClaim) -> ClaimOutcome {
    let may_pass = |error: &PersistError| matches!(error, PersistError::Shared(_));
    match retry_for_killed_daemon(may_pass, || state.acquire().map(|_| ())) {
        Err(PersistError::Shared(_)) => return ClaimOutcome::Shared,
        Err(error) => {
            let folder = state.folder().unwrap_or(Path::new(""));
            tracing::warn!(folder = %folder.display(), %error, "the daemon cannot claim the state folder and serves on; it keeps no change past its end: make the folder writable for it");
        }
        Ok(()) => {}
    }
    ClaimOutcome::Ours
}

/// The error that another daemon has the folder, whether or not that daemon is found.
fn held_error(folder: PathBuf, state: StateFolderClaim) -> StateError {
    let found = run_within(LOOK_MAX, move || find_holder(&state));
    match found.ok().flatten() {
        Some(FolderHolder::Stuck(stuck)) => StateError::Stuck { folder, stuck },
        Some(FolderHolder::Lives(pid)) => StateError::InUse { folder, pid },
        None => StateError::InUse { folder, pid: None },
    }
}

/// The process that has the folder, found by its lock. If others' locks cannot be seen, by what is written in the lock
/// file.
fn find_holder(state: &StateFolderClaim) -> FolderHolder {
    let signed = state.holder_pid();
    let by_lock = state.lock_file().and_then(|lock| stuck::holder(&lock));
    match by_lock.or_else(|| signed.and_then(stuck::process)) {
        Some(stuck) => FolderHolder::Stuck(stuck),
        None => FolderHolder::Lives(signed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_is_refused_before_it_is_known_whose_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other] =
            [(); 2].map(|()| StateFolderClaim::for_folder(Some(folder.path().to_owned())));
        one.acquire().expect("free");
        assert!(matches!(acquire(&other), ClaimOutcome::Shared));
        let refused = held_error(folder.path().to_owned(), other);
        assert!(matches!(refused, StateError::InUse { pid: Some(_), .. }));
        let silent = run_within(Duration::ZERO, || thread::sleep(Duration::from_secs(60)));
        assert_eq!(silent.expect("a thread"), None);
    }
}
