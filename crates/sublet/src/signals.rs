//! Signals that would kill the process, but must not.
//!
//! The process handles them without any effect. It does not ignore them, because programs that it starts would inherit
//! that.
//!
//! - SIGPIPE: the runtime ignores it.
//! - SIGTERM, SIGINT, SIGPWR, SIGHUP and SIGXCPU: `serve` acts on them.
//! - SIGUSR1 and SIGUSR2: `serve` logs them, and `memcached` acts on SIGUSR1, too.
//! - SIGQUIT, and what a fault of our own raises: they kill.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{
    SIGALRM, SIGINT, SIGIO, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ,
};
use signal_hook::flag;

use crate::exit::Exit;

/// Signals that make other daemons reopen their logs, and signals of timers that nobody sets here.
const STRAY: [i32; 6] = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO];

/// Turns a write beyond the limit of a file's size (`ulimit -f`) into an error, `EFBIG`, instead of death.
pub(crate) fn survive_large_files() -> io::Result<()> {
    catch(SIGXFSZ)
}

/// Makes stray signals harmless. A daemon whose guests would lose their disks survives what was meant for others.
pub(crate) fn survive_strays() -> Result<(), Exit> {
    let caught = STRAY.into_iter().try_for_each(catch);
    caught.map_err(|error| Exit::failed(format_args!("cannot handle signals: {error}")))
}

/// Returns what becomes true once the user interrupts a command that waits (SIGINT or SIGTERM). A second interruption
/// ends the process at once, as it may wait for a daemon that does not answer.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Exit> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&is_interrupted))
            .and_then(|_| flag::register(signal, Arc::clone(&is_interrupted)))
            .map_err(|error| Exit::failed(format_args!("cannot handle signals: {error}")))?;
    }
    Ok(is_interrupted)
}

fn catch(signal: i32) -> io::Result<()> {
    flag::register(signal, Arc::default()).map(drop)
}
