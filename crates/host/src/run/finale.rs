//! The end of the end: a step of it that takes longer than it may is told of, and the process exits without it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::observe::log;

/// How often it is looked whether a step takes too long.
const LOOK: Duration = Duration::from_millis(100);

/// What is to be done, and by when.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: &'static str,
    until: Instant,
}

impl Step {
    fn is_late(&self, now: Instant) -> bool {
        now >= self.until
    }
}

/// The daemon's end, step by step.
pub(super) struct Finale(Arc<Mutex<Option<Step>>>);

impl Finale {
    /// Begins it; `give_up` hears of a step that takes too long, and does not return.
    pub(super) fn begin(give_up: impl Fn(&'static str) + Send + 'static) -> Finale {
        let now: Arc<Mutex<Option<Step>>> = Arc::default();
        let watched = Arc::clone(&now);
        let watch = move || {
            while Arc::strong_count(&watched) > 1 {
                let step = *watched.lock();
                if let Some(step) = step.filter(|step| step.is_late(Instant::now())) {
                    return give_up(step.what);
                }
                thread::sleep(LOOK);
            }
        };
        if let Err(error) = thread::Builder::new()
            .name("finale".to_owned())
            .spawn(watch)
        {
            tracing::warn!(%error, "nobody sees to it that the end has a bound");
        }
        Finale(now)
    }

    /// Does what has `most` to be done.
    pub(super) fn step<T>(
        &self,
        what: &'static str,
        most: Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let until = Instant::now() + most;
        *self.0.lock() = Some(Step { what, until });
        let done = work();
        *self.0.lock() = None;
        done
    }
}

/// Leaves what hangs.
pub(super) fn exit(what: &'static str) {
    tracing::error!("the end does not wait for what hangs any longer: {what}");
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
        let finale = Finale::begin(move |what| tell.send(what).expect("somebody waits"));
        finale.step("quick", Duration::from_secs(60), || ());
        let hung = thread::spawn(move || finale.step("hangs", Duration::ZERO, || held.recv()));
        let minute = Duration::from_secs(60);
        assert_eq!(told.recv_timeout(minute), Ok("hangs"));
        drop(go_on);
        hung.join().expect("ended").expect_err("nobody sent");
        assert!(told.try_recv().is_err());
    }
}
