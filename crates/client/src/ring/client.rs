//! The handle that waits: one request, or one batch, after the other.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use sublet_pace::{Found, Look, Pace};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName};

use super::bell::{Bell, Sleep};
use super::client_end::{ClientEnd, Page};
use super::hello::{self, ConnectError, Farewell};
use super::layout::{Completion, Opcode, Shape, Submission};
use super::patience::Patience;
use super::verbs::{self, CallError, Get, Key, Put, Run};

/// The ring that a client asks for unless it says otherwise: 128 entries and 1 MiB of page slots.
pub const SHAPE: Shape = match Shape::new(128, 256) {
    Ok(shape) => shape,
    Err(_) => panic!("128 is a power of two"),
};

/// A connection to a tenant's ring. Calls block until they are answered: they look for the answer for a few
/// microseconds while answers come that fast, and sleep otherwise. It is for the process that connected: one that is forked
/// from it shares the ring's memory, and is refused.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    end: ClientEnd,
    bell: OwnedFd,
    patience: Patience,
    pace: Pace,
    /// Why nothing more can be asked.
    over: Option<CallError>,
    /// Which process connected.
    process: u32,
    /// What is asked together, and what came of it: its token is its place.
    asked: Vec<Submission>,
    heard: Vec<Option<Completion>>,
}

impl Client {
    /// Connects to the ring that listens at `path`.
    ///
    /// # Errors
    ///
    /// Nobody listens there, the daemon lets this user not in, or it has no room.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, ConnectError> {
        Client::connect_with(path, SHAPE)
    }

    /// The same with a ring as large as `wish`, or as large as the daemon grants.
    ///
    /// # Errors
    ///
    /// As [`connect`](Client::connect).
    pub fn connect_with(path: impl AsRef<Path>, wish: Shape) -> Result<Client, ConnectError> {
        let joined = hello::connect(path.as_ref(), wish)?;
        Ok(Client {
            socket: joined.socket,
            end: joined.end,
            bell: joined.bell,
            patience: Patience::default(),
            pace: Pace::default(),
            over: None,
            process: std::process::id(),
            asked: Vec::new(),
            heard: Vec::new(),
        })
    }

    /// How large the ring is.
    pub fn shape(&self) -> Shape {
        self.end.shape()
    }

    /// Makes a pool, or joins the shared pool of that name. A pool without a name ends with the
    /// connection at the latest.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; persistent and shared pools need the daemon's config to provide for them.
    pub fn create_pool(
        &mut self,
        flags: PoolFlags,
        shared: Option<SharedName>,
    ) -> Result<PoolId, CallError> {
        let completion = self.ask_one(verbs::create_pool(flags, shared))?;
        verbs::pool_of(&completion)
    }

    /// Forgets a pool and all its pages.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn destroy_pool(&mut self, pool: PoolId) -> Result<(), CallError> {
        let completion = self.ask_one(verbs::destroy_pool(pool))?;
        verbs::done(&completion)
    }

    /// Stores a page. Refused or not, an older page of that key is not to be had any more.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn put(&mut self, key: Key, page: &Page) -> Result<Put, CallError> {
        self.put_run(key, std::slice::from_ref(page))
            .map(|run| run.put())
    }

    /// Fetches a page into `page`, which is left alone unless it is a hit.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn get(&mut self, key: Key, page: &mut Page) -> Result<Get, CallError> {
        self.get_run(key, std::slice::from_mut(page))
            .map(|run| run.get())
    }

    /// Stores pages at indices that follow each other, 64 at most.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn put_run(&mut self, first: Key, pages: &[Page]) -> Result<Run, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        self.check()?;
        self.end.pages_mut(0, count).copy_from_slice(pages);
        let completion = self.ask_one(verbs::run(Opcode::Put, first, count, 0))?;
        verbs::run_of(&completion)
    }

    /// Fetches pages from indices that follow each other, 64 at most; those that miss are left alone.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn get_run(&mut self, first: Key, pages: &mut [Page]) -> Result<Run, CallError> {
        let count = verbs::run_count(pages.len(), self.shape())?;
        let completion = self.ask_one(verbs::run(Opcode::Get, first, count, 0))?;
        let run = verbs::run_of(&completion)?;
        let slots = self.end.pages(0, count);
        for (n, (page, slot)) in pages.iter_mut().zip(slots).enumerate() {
            if run.is_done(n) {
                page.copy_from_slice(slot);
            }
        }
        Ok(run)
    }

    /// Forgets a page; that it was not there is fine.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn flush_page(&mut self, key: Key) -> Result<(), CallError> {
        let completion = self.ask_one(verbs::run(Opcode::FlushPage, key, 1, 0))?;
        verbs::done(&completion)
    }

    /// Forgets all pages of an object.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn flush_object(&mut self, pool: PoolId, object: ObjectId) -> Result<(), CallError> {
        let completion = self.ask_one(verbs::flush_object(pool, object))?;
        verbs::done(&completion)
    }

    /// As in a process that was forked from the one that connected.
    #[cfg(test)]
    pub(super) fn act_as_forked(&mut self) {
        self.process = self.process.wrapping_add(1);
    }

    /// That something can be asked.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        match self.over {
            Some(over) => Err(over),
            None if std::process::id() != self.process => Err(CallError::Forked),
            None => Ok(()),
        }
    }

    pub(super) fn end(&self) -> &ClientEnd {
        &self.end
    }

    pub(super) fn end_mut(&mut self) -> &mut ClientEnd {
        &mut self.end
    }

    /// Forgets what was asked together last.
    pub(super) fn begin(&mut self) {
        self.asked.clear();
    }

    /// Adds to what is asked together; says its place.
    pub(super) fn add(&mut self, submission: Submission) -> usize {
        self.asked.push(submission);
        self.asked.len() - 1
    }

    pub(super) fn added(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn asked(&self, place: usize) -> Option<&Submission> {
        self.asked.get(place)
    }

    pub(super) fn heard(&self, place: usize) -> Option<&Completion> {
        self.heard.get(place)?.as_ref()
    }

    fn ask_one(&mut self, submission: Submission) -> Result<Completion, CallError> {
        self.asked.clear();
        self.asked.push(submission);
        self.ask()?;
        self.heard(0).copied().ok_or(CallError::Garbled)
    }

    /// Asks all that was added and waits until all is answered.
    pub(super) fn ask(&mut self) -> Result<(), CallError> {
        self.check()?;
        let asked = self.asked.len();
        self.heard.clear();
        self.heard.resize(asked, None);
        for (token, submission) in self.asked.iter().enumerate() {
            let token = token as u64;
            self.end.submit(&Submission {
                token,
                ..*submission
            });
        }
        if asked > 0 && self.end.publish() == Bell::Ring {
            self.ring();
        }
        let heard = self.hear_all();
        self.over = self.over.or(heard.err());
        heard
    }

    fn hear_all(&mut self) -> Result<(), CallError> {
        while self.end.under_way() > 0 {
            let Some(completion) = self.end.reap() else {
                if let Some(over) = self.over {
                    return Err(over);
                }
                // What was answered before the farewell is still there to be taken.
                self.over = self.wait().err().map(CallError::Gone);
                continue;
            };
            let place = usize::try_from(completion.token).unwrap_or(usize::MAX);
            let place = self.heard.get_mut(place).ok_or(CallError::Garbled)?;
            *place = Some(completion);
        }
        Ok(())
    }

    fn ring(&self) {
        // A full counter has rung already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn wait(&mut self) -> Result<(), Farewell> {
        let (end, socket) = (&self.end, &self.socket);
        if self.patience.look(|| end.has_completions()) {
            return Ok(());
        }
        self.pace.wait(|look| match look {
            Look::Glance => Ok(found(end)),
            Look::Sleep => sleep(end, socket),
        })
    }
}

fn found(end: &ClientEnd) -> Found {
    match end.has_completions() {
        true => Found::Work,
        false => Found::Nothing,
    }
}

fn sleep(end: &ClientEnd, socket: &UnixStream) -> Result<Found, Farewell> {
    if end.fall_asleep() == Sleep::Disturbed {
        return Ok(Found::Work);
    }
    let heard = hear(socket);
    end.wake_up();
    heard.map(|()| found(end))
}

/// Blocks until the doorbell rings or the daemon says that it is over.
fn hear(socket: &UnixStream) -> Result<(), Farewell> {
    let mut bytes = [0; 64];
    match rustix::net::recv(socket, &mut bytes, RecvFlags::empty()) {
        Ok((_, 0)) => Err(Farewell::HungUp),
        Ok((_, count)) => match bytes[..count].iter().find_map(|b| Farewell::of(*b)) {
            Some(farewell) => Err(farewell),
            None => Ok(()),
        },
        Err(Errno::INTR) => Ok(()),
        Err(_) => Err(Farewell::HungUp),
    }
}
