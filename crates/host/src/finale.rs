//! The end of the end: a step of it that takes longer than it may is told of, and the process exits without it.

use std::io;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::observe::log;

/// What is to be done, and by when.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: &'static str,
    until: Instant,
}

/// The daemon's end, step by step, and the thread that sees to it that each has a bound.
pub(crate) struct Finale {
    now: Option<Arc<Mutex<Option<Step>>>>,
    watch: Thread,
}

impl Finale {
    /// Prepares it while threads can be made; `give_up` is told of a step that takes too long, and does not return.
    pub(crate) fn prepare(give_up: impl Fn(&'static str) + Send + 'static) -> io::Result<Finale> {
        let now: Arc<Mutex<Option<Step>>> = Arc::default();
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
        Ok(Finale { now, watch })
    }

    /// Does what has `most` to be done.
    pub(crate) fn step<T>(
        &self,
        what: &'static str,
        most: Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let until = Instant::now() + most;
        self.set(Some(Step { what, until }));
        let done = work();
        self.set(None);
        done
    }

    fn set(&self, step: Option<Step>) {
        if let Some(now) = &self.now {
            *now.lock() = step;
        }
        self.watch.unpark();
    }
}

impl Drop for Finale {
    fn drop(&mut self) {
        self.now = None;
        self.watch.unpark();
    }
}

/// Leaves what hangs.
pub(crate) fn exit(what: &'static str) {
    tracing::error!(
        "the end does not wait for what hangs any longer: {what}; the process goes when the kernel lets its last thread go"
    );
    log::end();
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
        let finale = Finale::prepare(move |what| tell.send(what).expect("somebody waits"));
        let finale = finale.expect("a thread");
        finale.step("quick", Duration::from_secs(60), || ());
        let hung = thread::spawn(move || finale.step("hangs", Duration::ZERO, || held.recv()));
        let minute = Duration::from_secs(60);
        assert_eq!(told.recv_timeout(minute), Ok("hangs"));
        drop(go_on);
        hung.join().expect("ended").expect_err("nobody sent");
        assert!(told.try_recv().is_err());
    }
}
