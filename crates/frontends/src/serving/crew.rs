//! Threads that serve, each with a mailbox.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use sublet_store::TooManyWorkers;

use super::Mailbox;

/// What a thread does until it is told to end.
pub(crate) trait Work {
    /// Returns when it was told to end, or cannot go on.
    fn run(&mut self) -> io::Result<()>;
}

/// Why serving could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel refused a thread or an epoll.
    #[error("cannot start the threads that serve: {0}")]
    Kernel(#[from] io::Error),
    /// More workers than the store takes.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

/// Workers, each with a thread. They are told to end when this is dropped.
pub(crate) struct Crew<L> {
    mailboxes: Vec<Arc<Mailbox<L>>>,
    threads: Vec<JoinHandle<()>>,
    end: fn() -> L,
}

impl<L: Send + 'static> Crew<L> {
    /// Nobody yet. Whoever joins ends at the letter `end`.
    pub(crate) fn new(end: fn() -> L) -> Crew<L> {
        Crew {
            mailboxes: Vec::new(),
            threads: Vec::new(),
            end,
        }
    }

    /// Starts one more worker. `make` makes it in its thread, to which it belongs, with its mailbox; `failed` hears why it
    /// could not go on.
    pub(crate) fn start<W: Work>(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<(W, Arc<Mailbox<L>>), StartError> + Send + 'static,
        failed: impl FnOnce(&io::Error) + Send + 'static,
    ) -> Result<(), StartError> {
        let (ready, made) = mpsc::channel();
        let thread = named(name, move || {
            let (mut worker, made) = match make() {
                Ok((worker, mailbox)) => (Some(worker), Ok(mailbox)),
                Err(error) => (None, Err(error)),
            };
            let _ = ready.send(made);
            if let Some(Err(error)) = worker.as_mut().map(W::run) {
                failed(&error);
            }
        })?;
        self.mailboxes.push(made.recv().map_err(io::Error::other)??);
        self.threads.push(thread);
        Ok(())
    }

    /// Its workers' mailboxes, in the order in which they joined.
    pub(crate) fn mailboxes(&self) -> &[Arc<Mailbox<L>>] {
        &self.mailboxes
    }

    /// Tells each to end, by a letter of one's own; returns when all have.
    pub(crate) fn end_by(mut self, letter: impl Fn() -> L) {
        for mailbox in self.mailboxes.drain(..) {
            mailbox.send(letter());
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl<L> Drop for Crew<L> {
    fn drop(&mut self) {
        for mailbox in &self.mailboxes {
            mailbox.send((self.end)());
        }
    }
}

/// Starts a thread without a mailbox; `failed` hears why it could not go on.
pub(crate) fn spawn(
    name: &str,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
    failed: impl FnOnce(&io::Error) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    named(name, move || {
        if let Err(error) = work() {
            failed(&error);
        }
    })
}

fn named(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::serving::PollLoop;

    /// Ends at its first letter, and says which it was; fails at an odd one.
    struct Worker {
        poll: PollLoop<u32>,
        ends: Sender<u32>,
    }

    impl Work for Worker {
        fn run(&mut self) -> io::Result<()> {
            while self.poll.mail().letters.is_empty() {
                self.poll.wait(None)?;
                self.poll.take_events(|_| {});
            }
            let letter = self.poll.mail().letters[0];
            let _ = self.ends.send(letter);
            match letter % 2 {
                0 => Ok(()),
                _ => Err(io::Error::other("an odd letter")),
            }
        }
    }

    fn start(crew: &mut Crew<u32>, ends: &Sender<u32>, failed: &Sender<String>) {
        let (ends, failed) = (ends.clone(), failed.clone());
        let make = move || {
            let poll = PollLoop::new(1)?;
            let mailbox = Arc::clone(poll.mailbox());
            Ok((Worker { poll, ends }, mailbox))
        };
        let failed = move |error: &io::Error| {
            let _ = failed.send(error.to_string());
        };
        crew.start("worker", make, failed).expect("started");
    }

    fn all<T>(from: &Receiver<T>) -> Vec<T> {
        from.iter().collect()
    }

    #[test]
    fn those_that_have_begun_end_when_a_later_one_cannot() {
        let ((ends, ended), (failed, failures)) = (channel(), channel());
        let mut crew = Crew::new(|| 2);
        start(&mut crew, &ends, &failed);
        start(&mut crew, &ends, &failed);
        let refused = || Err(io::Error::other("no more").into());
        let third = crew.start::<Worker>("worker", refused, |_| {});
        assert!(matches!(third, Err(StartError::Kernel(_))));
        drop((crew, ends, failed));
        assert_eq!(all(&ended), [2, 2]);
        assert_eq!(all(&failures), [] as [String; 0]);
    }

    #[test]
    fn each_ends_by_the_letter_that_it_is_told_to() {
        let ((ends, ended), (failed, failures)) = (channel(), channel());
        let mut crew = Crew::new(|| 2);
        start(&mut crew, &ends, &failed);
        start(&mut crew, &ends, &failed);
        crew.end_by(|| 4);
        drop((ends, failed));
        assert_eq!(all(&ended), [4, 4]);
        assert_eq!(all(&failures), [] as [String; 0]);
    }

    #[test]
    fn it_is_told_when_one_cannot_go_on_and_its_mailbox_closes() {
        let ((ends, _ended), (failed, failures)) = (channel(), channel());
        let mut crew = Crew::new(|| 2);
        start(&mut crew, &ends, &failed);
        let mailbox = Arc::clone(&crew.mailboxes()[0]);
        mailbox.send(1);
        let why = failures.recv_timeout(Duration::from_secs(10));
        assert_eq!(why.as_deref(), Ok("an odd letter"));
        crew.end_by(|| 2);
    }
}
