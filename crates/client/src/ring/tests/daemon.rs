//! A small daemon for tests: one thread, one connection at a time, a `HashMap` for a store.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::ring::layout::{Completion, Fault, Opcode, Outcome, Refusal, Submission};
use crate::ring::{Bell, DaemonEnd, Farewell, Page, Shape, Sleep, hello};

/// What the daemon does on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// All that is asked.
    Willing,
    /// Hangs up with a word after so many requests.
    Leaving(u32),
}

pub(crate) struct Daemon {
    folder: tempfile::TempDir,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Serves one connection.
    pub(crate) fn start(most: Shape, mood: Mood) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("ring")).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a client");
            serve(socket, most, mood);
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

/// Its client must be gone by then.
impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut socket: UnixStream, most: Shape, mood: Mood) {
    let mut hello = [0; hello::HELLO_BYTES];
    socket.read_exact(&mut hello).expect("a greeting");
    let wish = match hello::Hello::of(&hello) {
        Ok(hello) => hello.wish,
        Err(rejection) => return hello::turn_away(&socket, rejection).expect("turned away"),
    };
    let (mut end, memory) = DaemonEnd::create(wish.within(most)).expect("a ring");
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a bell");
    hello::let_in(&socket, end.shape(), memory.as_fd(), bell.as_fd()).expect("let in");
    let mut pages = HashMap::new();
    let mut taken = 0;
    loop {
        while let Some(submission) = end.take().expect("honest clients only") {
            end.complete(&answer(&end, &mut pages, &submission));
            taken += 1;
        }
        if end.publish() == Bell::Ring {
            hello::ring(&socket);
        }
        if matches!(mood, Mood::Leaving(after) if taken >= after) {
            return hello::part(&socket, Farewell::Stopping);
        }
        if end.fall_asleep() == Sleep::Sound && is_over(&socket, &bell) {
            return;
        }
        end.wake_up();
    }
}

/// Sleeps until the bell rings; says whether the client hung up instead.
fn is_over(socket: &UnixStream, bell: &rustix::fd::OwnedFd) -> bool {
    let mut ready = [
        PollFd::new(socket, PollFlags::IN),
        PollFd::new(bell, PollFlags::IN),
    ];
    let long = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    let woken = poll(&mut ready, Some(&long)).expect("polled");
    assert_ne!(woken, 0, "the client forgot to ring");
    let hung_up = !ready[0].revents().is_empty();
    let _ = rustix::io::read(bell, &mut [0; 8]);
    hung_up
}

type Pages = HashMap<(u64, u64, u32), Page>;

fn answer(end: &DaemonEnd, pages: &mut Pages, asked: &Submission) -> Completion {
    let mut completion = Completion {
        token: asked.token,
        opcode: asked.opcode,
        ..Completion::default()
    };
    let slots = end.slots(asked.page_slot, asked.count);
    let run = slots.into_iter().flat_map(|run| run.slots()).enumerate();
    let key = |n: usize| (asked.pool, asked.object, asked.index + n as u32);
    let outcome = match Opcode::of(asked.opcode) {
        Some(Opcode::Put) if asked.object == u64::MAX => Outcome::Refused(Refusal::NoMemory),
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
            (0..asked.count as usize).for_each(|n| _ = pages.remove(&key(n)));
            Outcome::Done
        }
        Some(Opcode::FlushObject) => {
            pages.retain(|(pool, object, _), _| (*pool, *object) != (asked.pool, asked.object));
            Outcome::Done
        }
        Some(Opcode::CreatePool) if asked.flags & 1 == 1 => Outcome::Refused(Refusal::NoSpill),
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
