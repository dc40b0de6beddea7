//! What the daemon does with signals. It survives other signals than these, or dies by them (`sublet`'s own `signals`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::SIGPWR;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::iterator::Signals;

use crate::daemon::Daemon;

/// The daemon ends by these: its owner's, the one of LXC, which halts a container, and the kernel's, when its processor
/// time is up.
const ENDING: [i32; 4] = [SIGTERM, SIGINT, SIGPWR, SIGXCPU];

/// Waits for signals.
pub(crate) struct SignalWaiter {
    signals: Signals,
    /// The daemon ends already, and another signal of its owner ends it at once.
    is_ending: Arc<AtomicBool>,
    /// Handlers that make a first signal count until serving begins, because a start that hangs hears nothing else.
    first_words: Vec<SigId>,
}

impl SignalWaiter {
    /// From now on none of these signals kills the daemon before it ends. When it ends, SIGXCPU still does not: it
    /// comes each second until the kernel kills.
    pub(crate) fn install() -> io::Result<SignalWaiter> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut first_words = Vec::new();
        for signal in [SIGTERM, SIGINT] {
            register_conditional_shutdown(signal, 1, Arc::clone(&is_ending))?;
            first_words.push(register(signal, Arc::clone(&is_ending))?);
        }
        let others = [SIGHUP, SIGUSR1, SIGUSR2];
        let signals = Signals::new(ENDING.into_iter().chain(others))?;
        Ok(SignalWaiter {
            signals,
            is_ending,
            first_words,
        })
    }

    /// Waits for a signal that ends the daemon.
    pub(crate) fn wait(&mut self, daemon: &Arc<Daemon>) {
        for first_word in self.first_words.drain(..) {
            signal_hook::low_level::unregister(first_word);
        }
        for signal in self.signals.forever() {
            let name = signal_name(signal);
            match signal {
                SIGHUP => daemon.begin_reload(),
                SIGUSR1 | SIGUSR2 => {
                    tracing::info!(
                        signal = name,
                        "this signal changes nothing: logs go to stderr, and on SIGHUP the daemon reads files again"
                    );
                }
                _ => {
                    self.is_ending.store(true, Ordering::Relaxed);
                    tracing::info!(
                        signal = name,
                        "the daemon is ending and writes disks to their backings first; a second SIGTERM or SIGINT ends it at once, with exit code 1"
                    );
                    return;
                }
            }
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        SIGPWR => "SIGPWR",
        signal => signal_hook::low_level::signal_name(signal).unwrap_or("a signal"),
    }
}
