//! The state folder is one daemon's, from its start to its end: what another found there, it would take for its own.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::RunError;
use crate::config::{Claim, KeepError};
use crate::patience::patiently;
use crate::stuck::{self, Stuck};

/// How long the folder's file system may take to answer. A daemon starts beside one that hangs.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Who has the folder.
enum Other {
    Stuck(Stuck),
    Lives(Option<u32>),
}

/// Claims the state folder, if there is one. One that was killed a moment ago is waited for. A folder that takes no claim
/// since it cannot be written is no reason not to serve: nothing can be kept there.
pub(super) fn claim(state: &Claim) -> Result<(), RunError> {
    let Some(folder) = state.folder().map(PathBuf::from) else {
        return Ok(());
    };
    let (answer, laid) = mpsc::channel();
    let state = state.clone();
    thread::Builder::new()
        .name("state".into())
        .spawn(move || _ = answer.send(lay(&state)))?;
    match laid.recv_timeout(ANSWER_MAX) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Other::Stuck(stuck))) => Err(RunError::Stuck { folder, stuck }),
        Ok(Err(Other::Lives(pid))) => Err(RunError::InUse { folder, pid }),
        Err(_) => {
            tracing::warn!(folder = %folder.display(), "the state folder does not answer, and is not claimed yet; see to its file system");
            Ok(())
        }
    }
}

fn lay(state: &Claim) -> Result<(), Other> {
    let may_pass = |error: &KeepError| matches!(error, KeepError::Shared(_));
    match patiently(may_pass, || state.lay().map(|_| ())) {
        Err(KeepError::Shared(_)) => Err(in_the_way(state)),
        Err(error) => {
            tracing::warn!(%error, "the state folder cannot be claimed: what is changed while the daemon runs cannot be kept");
            Ok(())
        }
        Ok(()) => Ok(()),
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
