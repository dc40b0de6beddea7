//! The state folder is one daemon's, from its start to its end: what another found there, it would take for its own.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::config::{Claim, KeepError, LoadError, Loaded};
use crate::patience::patiently;
use crate::stuck::{self, Stuck};

/// How long the folder's file system may take to answer. A daemon starts beside one that hangs.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long it is looked who has the folder: at most all that all processes have open.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Why the state folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// `live.toml` was changed while the folder was another's, and makes no sense.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The state folder belongs to a daemon that was killed and cannot end.
    #[error("the state folder {} is not free: {stuck}", folder.display())]
    Stuck {
        /// The folder.
        folder: PathBuf,
        /// Who has it.
        stuck: Stuck,
    },
    /// The state folder belongs to a daemon that runs.
    #[error("another sublet{} keeps its state in {}; stop it, or give this one a folder of its own: sublet serve --state FOLDER", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Who has it.
        pid: Option<u32>,
    },
    /// The system refused a thread.
    #[error("the system refused a thread: {0}")]
    System(#[from] io::Error),
}

/// Who has the folder.
enum Other {
    Stuck(Stuck),
    Lives(Option<u32>),
}

/// How the claim went.
enum Claimed {
    /// Or the folder takes none, since it cannot be written.
    Ours,
    Shared,
}

/// Claims the state folder, if there is one. One that was killed a moment ago is waited for, and what it kept meanwhile is
/// read. A folder that takes no claim since it cannot be written is no reason not to serve: nothing can be kept there.
pub(crate) fn claim(loaded: Loaded) -> Result<Loaded, StateError> {
    let state = loaded.live.state().clone();
    let Some(folder) = state.folder().map(PathBuf::from) else {
        return Ok(loaded);
    };
    let laid = within(ANSWER_MAX, {
        let state = state.clone();
        move || lay(&state)
    })?;
    match laid {
        Some(Claimed::Ours) => Ok(loaded.read_again()?),
        Some(Claimed::Shared) => Err(taken(folder, state)),
        None => {
            tracing::warn!(folder = %folder.display(), "the state folder does not answer, and is not claimed yet; see to its file system");
            Ok(loaded)
        }
    }
}

/// What `work` says, if it says that in time. It may touch a file system that hangs.
fn within<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (answer, said) = mpsc::channel();
    let thread = thread::Builder::new().name("state".into());
    thread.spawn(move || _ = answer.send(work()))?;
    Ok(said.recv_timeout(most).ok())
}

fn lay(state: &Claim) -> Claimed {
    let may_pass = |error: &KeepError| matches!(error, KeepError::Shared(_));
    match patiently(may_pass, || state.lay().map(|_| ())) {
        Err(KeepError::Shared(_)) => return Claimed::Shared,
        Err(error) => {
            tracing::warn!(%error, "the state folder cannot be claimed: what is changed while the daemon runs cannot be kept");
        }
        Ok(()) => {}
    }
    Claimed::Ours
}

/// Another's folder is no place to serve from, whether it is found who that is or not.
fn taken(folder: PathBuf, state: Claim) -> StateError {
    let found = within(LOOK_MAX, move || in_the_way(&state));
    match found.ok().flatten() {
        Some(Other::Stuck(stuck)) => StateError::Stuck { folder, stuck },
        Some(Other::Lives(pid)) => StateError::InUse { folder, pid },
        None => StateError::InUse { folder, pid: None },
    }
}

/// Who has the folder, by its lock; where others' locks cannot be seen, by what is written there.
fn in_the_way(state: &Claim) -> Other {
    let signed = state.signature();
    let by_lock = state.lock_file().and_then(|lock| stuck::holder(&lock));
    match by_lock.or_else(|| signed.and_then(stuck::process)) {
        Some(stuck) => Other::Stuck(stuck),
        None => Other::Lives(signed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_is_refused_before_it_is_known_whose_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other] = [(); 2].map(|()| Claim::to(Some(folder.path().to_owned())));
        one.lay().expect("free");
        assert!(matches!(lay(&other), Claimed::Shared));
        let refused = taken(folder.path().to_owned(), other);
        assert!(matches!(refused, StateError::InUse { pid: Some(_), .. }));
        let silent = within(Duration::ZERO, || thread::sleep(Duration::from_secs(60)));
        assert_eq!(silent.expect("a thread"), None);
    }
}
