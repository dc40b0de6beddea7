//! Signals that would kill, and must not.
//!
//! They are heard and nothing comes of them, rather than ignored: who is ignored stays so in programs that are started.
//! SIGPIPE the runtime ignores; SIGTERM, SIGINT, SIGPWR, SIGHUP and SIGXCPU `serve` acts on, and tells of SIGUSR1 and SIGUSR2;
//! `memcached` acts on SIGUSR1, too; SIGQUIT, and what a fault of our own raises, kill.

use std::io;
use std::sync::Arc;

use signal_hook::consts::{SIGALRM, SIGIO, SIGPROF, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ};
use signal_hook::flag;

use crate::exit::Exit;

/// What other daemons reopen their logs by, and what timers send that nobody here sets.
const STRAY: [i32; 6] = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO];

/// A write beyond the limit of a file's size (`ulimit -f`) is an error, `EFBIG`, and no death.
pub(crate) fn survive_large_files() -> io::Result<()> {
    hear(SIGXFSZ)
}

/// A daemon whose guests would lose their disks lives through what was meant for others.
pub(crate) fn survive_strays() -> Result<(), Exit> {
    let heard = STRAY.into_iter().try_for_each(hear);
    heard.map_err(|error| Exit::failed(format_args!("cannot hear signals: {error}")))
}

fn hear(signal: i32) -> io::Result<()> {
    flag::register(signal, Arc::default()).map(drop)
}
