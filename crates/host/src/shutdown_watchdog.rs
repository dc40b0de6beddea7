//! Bounds the daemon's end: if a step takes longer than it may, that is logged and the process exits without it.

use std::io;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::observe::log;

/// A step, and its deadline.
#[derive(Clone, Copy, Debug)]
struct ShutdownStep {
    what: &'static str,
    until: Instant,
}

/// The daemon's end, step by step, and the thread that bounds each step.
pub(crate) struct ShutdownWatchdog {
    now: Option<Arc<Mutex<Option<ShutdownStep>>>>,
    watch: Thread,
}

impl ShutdownWatchdog {
    /// Starts the thread while threads can be made. `give_up` gets a step that takes too long, and does not return.
    pub(crate) fn start(
        give_up: impl Fn(&'static str) + Send + 'static,
    ) -> io::Result<ShutdownWatchdog> {
        let now: Arc<Mutex<Option<ShutdownStep>>> = Arc::default();
        let watched = Arc::clone(&now);
        let watch = move || {
            while Arc::strong_count(&watched) > 1 {
                let (step, at) = (*watched.lock(), Instant::now());
                match step {
                    Some(step) if at >= step.until => return give_up(step.what),
                    Some(step) => thread::park_timeout(step.until - at),
                    None => thread::park(),
                }
            }
        };
        let builder = thread::Builder::new().name("finale".to_owned());
        let watch = builder.spawn(watch)?.thread().clone();
        let now = Some(now);
        Ok(ShutdownWatchdog { now, watch })
    }

    /// Runs a step that may take at most `most`.
    pub(crate) fn run_step<T>(
        &self,
        what: &'static str,
        most: Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let until = Instant::now() + most;
        self.set(Some(ShutdownStep { what, until }));
        let done = work();
        self.set(None);
        done
    }

    fn set(&self, step: Option<ShutdownStep>) {
        if let Some(now) = &self.now {
            *now.lock() = step;
        }
        self.watch.unpark();
    }
}

impl Drop for ShutdownWatchdog {
    fn drop(&mut self) {
        self.now = None;
        self.watch.unpark();
    }
}

/// Exits without the step that hangs.
pub(crate) fn exit(what: &'static str) {
    tracing::error!(
        "the daemon's end no longer waits for what hangs: {what}; the process ends when the kernel releases its last thread"
    );
    log::flush();
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_step_that_hangs_is_given_up_and_one_that_is_done_is_not() {
        let (tell, told) = channel();
        let (go_on, held) = channel::<()>();
        let watchdog =
            ShutdownWatchdog::start(move |what| tell.send(what).expect("somebody waits"));
        let watchdog = watchdog.expect("a thread");
        watchdog.run_step("quick", Duration::from_secs(60), || ());
        let hung =
            thread::spawn(move || watchdog.run_step("hangs", Duration::ZERO, || held.recv()));
        let minute = Duration::from_secs(60);
        assert_eq!(told.recv_timeout(minute), Ok("hangs"));
        drop(go_on);
        hung.join().expect("ended").expect_err("nobody sent");
        assert!(told.try_recv().is_err());
    }
}
