//! A small daemon for tests: one thread, one connection at a time, a `HashMap` for a store.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::ring::layout::{Completion, Fault, Opcode, Outcome, Refusal, Submission};
use crate::ring::{CloseReason, DaemonEnd, Page, Shape, SleepAttempt, Wakeup, hello};

/// How the daemon behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// It does everything that is asked.
    Willing,
    /// It closes the connection with a reason after so many requests.
    Leaving(u32),
}

pub(crate) struct Daemon {
    folder: tempfile::TempDir,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Serves one connection.
    pub(crate) fn start(most: Shape, behavior: Behavior) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("ring")).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a client");
            serve(socket, most, behavior);
        });
        Daemon {
            folder,
            thread: Some(thread),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("ring")
    }
}

/// The client must be gone by then.
impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut socket: UnixStream, most: Shape, behavior: Behavior) {
    let mut hello = [0; hello::HELLO_BYTES];
    socket.read_exact(&mut hello).expect("a greeting");
    let wish = match hello::Hello::of(&hello) {
        Ok(hello) => hello.wish,
        Err(rejection) => return hello::reject(&socket, rejection).expect("rejected"),
    };
    let (mut end, memory) = DaemonEnd::create(wish.within(most)).expect("a ring");
    let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
    hello::accept(&socket, end.shape(), memory.as_fd(), doorbell.as_fd()).expect("accepted");
    let mut pages = HashMap::new();
    let mut taken = 0;
    loop {
        while let Some(submission) = end.dequeue().expect("honest clients only") {
            end.complete(&answer(&end, &mut pages, &submission));
            taken += 1;
        }
        if end.publish() == Wakeup::Needed {
            hello::ring_doorbell(&socket);
        }
        if matches!(behavior, Behavior::Leaving(after) if taken >= after) {
            return hello::send_close_reason(&socket, CloseReason::Stopping);
        }
        if end.fall_asleep() == SleepAttempt::Asleep && is_over(&socket, &doorbell) {
            return;
        }
        end.wake_up();
    }
}

/// Sleeps until the doorbell rings. Returns whether the client hung up instead.
fn is_over(socket: &UnixStream, doorbell: &rustix::fd::OwnedFd) -> bool {
    let mut ready = [
        PollFd::new(socket, PollFlags::IN),
        PollFd::new(doorbell, PollFlags::IN),
    ];
    let long = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    let woken = poll(&mut ready, Some(&long)).expect("polled");
    assert_ne!(woken, 0, "the client forgot to ring");
    let hung_up = !ready[0].revents().is_empty();
    let _ = rustix::io::read(doorbell, &mut [0; 8]);
    hung_up
}

type StoredPages = HashMap<(u64, u64, u32), Page>;

fn answer(end: &DaemonEnd, pages: &mut StoredPages, submission: &Submission) -> Completion {
    let mut completion = Completion {
        token: submission.token,
        opcode: submission.opcode,
        ..Completion::default()
    };
    let slots = end.slots(submission.page_slot, submission.count);
    let run = slots.into_iter().flat_map(|run| run.slots()).enumerate();
    let key = |n: usize| {
        (
            submission.pool,
            submission.object,
            submission.index + n as u32,
        )
    };
    let outcome = match Opcode::of(submission.opcode) {
        Some(Opcode::Put) if submission.object == u64::MAX => Outcome::Refused(Refusal::NoMemory),
        Some(Opcode::Put) => {
            run.for_each(|(n, slot)| {
                let mut page = [0; 4096];
                end.read_page(slot, &mut page);
                completion.first |= 1 << n;
                completion.second |= u64::from(pages.insert(key(n), page).is_some()) << n;
            });
            Outcome::Done
        }
        Some(Opcode::Get) => {
            run.for_each(|(n, slot)| {
                if let Some(page) = pages.remove(&key(n)) {
                    end.write_page(slot, &page);
                    completion.first |= 1 << n;
                }
            });
            Outcome::Done
        }
        Some(Opcode::FlushPage) => {
            (0..submission.count as usize).for_each(|n| _ = pages.remove(&key(n)));
            Outcome::Done
        }
        Some(Opcode::FlushObject) => {
            pages.retain(|(pool, object, _), _| {
                (*pool, *object) != (submission.pool, submission.object)
            });
            Outcome::Done
        }
        Some(Opcode::CreatePool) if submission.flags & 1 == 1 => Outcome::Refused(Refusal::NoSpill),
        Some(Opcode::CreatePool) => {
            completion.first = 3 | 7 << 32;
            Outcome::Done
        }
        Some(Opcode::DestroyPool) => Outcome::Faulty(Fault::Pool),
        None => Outcome::Faulty(Fault::Opcode),
    };
    completion.outcome = outcome.number();
    completion
}
