//! Threads that serve, each with a mailbox.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use sublet_store::TooManyWorkers;

use super::Mailbox;

/// What a thread does until a message stops it.
pub(crate) trait Work {
    /// Returns when a message stops the worker, or when it cannot go on.
    fn run(&mut self) -> io::Result<()>;
}

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel refused a thread or an epoll.
    #[error("cannot start the threads that serve: {0}")]
    Kernel(#[from] io::Error),
    /// The store takes no more workers.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

/// Workers, each with a thread. Dropping this sends each the message to stop.
pub(crate) struct WorkerThreads<L> {
    mailboxes: Vec<Arc<Mailbox<L>>>,
    threads: Vec<JoinHandle<()>>,
    stop_message: fn() -> L,
}

impl<L: Send + 'static> WorkerThreads<L> {
    /// Makes an empty set. `end` makes the message that stops a worker.
    pub(crate) fn new(end: fn() -> L) -> WorkerThreads<L> {
        WorkerThreads {
            mailboxes: Vec::new(),
            threads: Vec::new(),
            stop_message: end,
        }
    }

    /// Starts one more worker. The new thread calls `make`, which makes the worker and its mailbox. `failed` gets the
    /// error if the worker cannot go on.
    pub(crate) fn start<W: Work>(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<(W, Arc<Mailbox<L>>), StartError> + Send + 'static,
        failed: impl FnOnce(&io::Error) + Send + 'static,
    ) -> Result<(), StartError> {
        let (ready, mailbox) = mpsc::channel();
        let thread = spawn_named(name, move || {
            let (mut worker, mailbox) = match make() {
                Ok((worker, mailbox)) => (Some(worker), Ok(mailbox)),
                Err(error) => (None, Err(error)),
            };
            let _ = ready.send(mailbox);
            if let Some(Err(error)) = worker.as_mut().map(W::run) {
                failed(&error);
            }
        })?;
        self.mailboxes
            .push(mailbox.recv().map_err(io::Error::other)??);
        self.threads.push(thread);
        Ok(())
    }

    /// Returns the workers' mailboxes, in the order in which the workers started.
    pub(crate) fn mailboxes(&self) -> &[Arc<Mailbox<L>>] {
        &self.mailboxes
    }

    /// Sends each worker the message that `message` makes, to stop it. Returns when all have ended.
    pub(crate) fn stop_and_join(mut self, message: impl Fn() -> L) {
        for mailbox in self.mailboxes.drain(..) {
            mailbox.send(message());
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl<L> Drop for WorkerThreads<L> {
    fn drop(&mut self) {
        for mailbox in &self.mailboxes {
            mailbox.send((self.stop_message)());
        }
    }
}

/// Starts a thread without a mailbox. `failed` gets the error if it cannot go on.
pub(crate) fn spawn(
    name: &str,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
    failed: impl FnOnce(&io::Error) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    spawn_named(name, move || {
        if let Err(error) = work() {
            failed(&error);
        }
    })
}

fn spawn_named(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::clock::MonotonicClock;
    use crate::serving::PollLoop;

    /// Ends at its first message and reports it. Fails if the message is odd.
    struct Worker {
        poll: PollLoop<u32>,
        ends: Sender<u32>,
    }

    impl Work for Worker {
        fn run(&mut self) -> io::Result<()> {
            while self.poll.mail().messages.is_empty() {
                self.poll.wait(None)?;
                self.poll.drain_events(|_| {});
            }
            let message = self.poll.mail().messages[0];
            let _ = self.ends.send(message);
            match message % 2 {
                0 => Ok(()),
                _ => Err(io::Error::other("an odd message")),
            }
        }
    }

    fn start(workers: &mut WorkerThreads<u32>, ends: &Sender<u32>, failed: &Sender<String>) {
        let (ends, failed) = (ends.clone(), failed.clone());
        let make = move || {
            let poll = PollLoop::new(1, MonotonicClock::default())?;
            let mailbox = Arc::clone(poll.mailbox());
            Ok((Worker { poll, ends }, mailbox))
        };
        let failed = move |error: &io::Error| {
            let _ = failed.send(error.to_string());
        };
        workers.start("worker", make, failed).expect("started");
    }

    fn all<T>(from: &Receiver<T>) -> Vec<T> {
        from.iter().collect()
    }

    #[test]
    fn those_that_have_begun_end_when_a_later_one_cannot() {
        let ((ends, ended), (failed, failures)) = (channel(), channel());
        let mut workers = WorkerThreads::new(|| 2);
        start(&mut workers, &ends, &failed);
        start(&mut workers, &ends, &failed);
        let refused = || Err(io::Error::other("no more").into());
        let third = workers.start::<Worker>("worker", refused, |_| {});
        assert!(matches!(third, Err(StartError::Kernel(_))));
        drop((workers, ends, failed));
        assert_eq!(all(&ended), [2, 2]);
        assert_eq!(all(&failures), [] as [String; 0]);
    }

    #[test]
    fn each_ends_by_the_message_that_stops_it() {
        let ((ends, ended), (failed, failures)) = (channel(), channel());
        let mut workers = WorkerThreads::new(|| 2);
        start(&mut workers, &ends, &failed);
        start(&mut workers, &ends, &failed);
        workers.stop_and_join(|| 4);
        drop((ends, failed));
        assert_eq!(all(&ended), [4, 4]);
        assert_eq!(all(&failures), [] as [String; 0]);
    }

    #[test]
    fn a_failed_worker_is_reported_and_its_mailbox_closes() {
        let ((ends, _ended), (failed, failures)) = (channel(), channel());
        let mut workers = WorkerThreads::new(|| 2);
        start(&mut workers, &ends, &failed);
        let mailbox = Arc::clone(&workers.mailboxes()[0]);
        mailbox.send(1);
        let why = failures.recv_timeout(Duration::from_secs(10));
        assert_eq!(why.as_deref(), Ok("an odd message"));
        workers.stop_and_join(|| 2);
    }
}
