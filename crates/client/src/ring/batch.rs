//! Requests that travel together.

use sublet_types::{ObjectId, PoolId};

use super::client::Client;
use super::client_end::Page;
use super::layout::{Fault, Opcode, RUN_PAGES_MAX, Submission};
use super::verbs::{self, CallError, Get, Key, Put, Run};

/// Why nothing more can be added to a batch. Run it, and begin another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// As many requests as the ring has entries.
    #[error("the batch holds as many requests as the ring has entries: run it first")]
    Entries,
    /// As many pages as the ring has page slots.
    #[error("the batch holds as many pages as the ring has page slots: run it first")]
    PageSlots,
    /// Another process connected: see [`CallError::Forked`].
    #[error("the ring is of the process that this one was forked from: connect here, too")]
    Forked,
    /// Not a run of 1 to 64 pages.
    #[error("a run has 1 to {RUN_PAGES_MAX} pages")]
    Run,
}

/// A request of a batch: by it the answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(usize);

impl Ticket {
    /// The request's place in its batch, from 0 on.
    pub fn place(self) -> usize {
        self.0
    }

    /// The ticket of the request at this place.
    pub fn at(place: usize) -> Ticket {
        Ticket(place)
    }
}

/// Requests that are gathered, to be run together. Their pages lie where daemon and client both see them, so
/// nothing is copied on this side.
#[derive(Debug)]
pub struct Batch<'a> {
    client: &'a mut Client,
    slots_used: u32,
    is_forked: bool,
}

impl Client {
    /// Begins a batch: requests that travel together, with pages that are filled and read in place.
    pub fn batch(&mut self) -> Batch<'_> {
        self.begin();
        Batch {
            slots_used: 0,
            is_forked: self.check() == Err(CallError::Forked),
            client: self,
        }
    }
}

impl<'a> Batch<'a> {
    /// A batch that was left while requests were added, with as many page slots used.
    #[cfg(feature = "ffi")]
    pub(crate) fn resume(client: &'a mut Client, slots_used: u32) -> Batch<'a> {
        Batch {
            client,
            slots_used,
            is_forked: false, // it was not, when it was begun
        }
    }

    /// Page slots used so far.
    #[cfg(feature = "ffi")]
    pub(crate) fn slots_used(&self) -> u32 {
        self.slots_used
    }

    /// Adds a put, and gives the page that it stores, to be filled. What it holds before that is whatever an earlier
    /// request left.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn put(&mut self, key: Key) -> Result<(Ticket, &mut Page), BatchError> {
        let (ticket, pages) = self.put_run(key, 1)?;
        Ok((ticket, &mut pages[0]))
    }

    /// Adds a put of `count` pages at indices that follow each other.
    ///
    /// # Errors
    ///
    /// The batch is full, or that is no run.
    pub fn put_run(&mut self, first: Key, count: u32) -> Result<(Ticket, &mut [Page]), BatchError> {
        let (ticket, slot) = self.add_run(Opcode::Put, first, count)?;
        Ok((ticket, self.client.end_mut().pages_mut(slot, count)))
    }

    /// Adds a get.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn get(&mut self, key: Key) -> Result<Ticket, BatchError> {
        self.get_run(key, 1)
    }

    /// Adds a get of `count` pages at indices that follow each other.
    ///
    /// # Errors
    ///
    /// The batch is full, or that is no run.
    pub fn get_run(&mut self, first: Key, count: u32) -> Result<Ticket, BatchError> {
        self.add_run(Opcode::Get, first, count)
            .map(|(ticket, _)| ticket)
    }

    /// Adds a flush of a page.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn flush_page(&mut self, key: Key) -> Result<Ticket, BatchError> {
        self.add(verbs::run(Opcode::FlushPage, key, 1, 0))
    }

    /// Adds a flush of `count` pages at indices that follow each other.
    ///
    /// # Errors
    ///
    /// The batch is full, or that is no run.
    pub fn flush_run(&mut self, first: Key, count: u32) -> Result<Ticket, BatchError> {
        is_run(count)?;
        self.add(verbs::run(Opcode::FlushPage, first, count, 0))
    }

    /// Adds a flush of an object.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn flush_object(&mut self, pool: PoolId, object: ObjectId) -> Result<Ticket, BatchError> {
        self.add(verbs::flush_object(pool, object))
    }

    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.client.added()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs all requests, in the order in which they were added, and waits until all are answered.
    ///
    /// # Errors
    ///
    /// The connection is over. What a request came to by itself is asked of the [`Answers`].
    pub fn run(self) -> Result<Answers<'a>, CallError> {
        self.client.ask()?;
        Ok(Answers {
            client: self.client,
        })
    }

    fn add_run(
        &mut self,
        opcode: Opcode,
        first: Key,
        count: u32,
    ) -> Result<(Ticket, u32), BatchError> {
        is_run(count)?;
        let slot = self.slots_used;
        if !self.client.shape().has_slots(slot, count) {
            return Err(BatchError::PageSlots);
        }
        let ticket = self.add(verbs::run(opcode, first, count, slot))?;
        self.slots_used += count;
        Ok((ticket, slot))
    }

    fn add(&mut self, submission: Submission) -> Result<Ticket, BatchError> {
        if self.is_forked {
            return Err(BatchError::Forked);
        }
        if self.len() >= self.client.end().room() as usize {
            return Err(BatchError::Entries);
        }
        Ok(Ticket(self.client.add(submission)))
    }
}

pub(super) fn is_run(count: u32) -> Result<(), BatchError> {
    match (1..=RUN_PAGES_MAX).contains(&count) {
        true => Ok(()),
        false => Err(BatchError::Run),
    }
}

/// What a batch came to. Pages that were hit are read in place, until the next request.
#[derive(Debug)]
pub struct Answers<'a> {
    client: &'a mut Client,
}

#[cfg(feature = "ffi")]
impl<'a> Answers<'a> {
    /// The answers of the batch that a client ran last.
    pub(crate) fn of(client: &'a mut Client) -> Answers<'a> {
        Answers { client }
    }

    /// Whether a request is a get.
    pub(crate) fn is_get(&self, ticket: Ticket) -> bool {
        let asked = self.client.asked(ticket.0);
        asked.is_some_and(|asked| asked.opcode == Opcode::Get as u16)
    }
}

impl Answers<'_> {
    /// What became of a put.
    ///
    /// # Errors
    ///
    /// The request was wrong.
    pub fn put(&self, ticket: Ticket) -> Result<Put, CallError> {
        self.run(ticket).map(|run| run.put())
    }

    /// What became of a get.
    ///
    /// # Errors
    ///
    /// The request was wrong.
    pub fn get(&self, ticket: Ticket) -> Result<Get, CallError> {
        self.run(ticket).map(|run| run.get())
    }

    /// What became of a run, or of a flush.
    ///
    /// # Errors
    ///
    /// The request was wrong.
    pub fn run(&self, ticket: Ticket) -> Result<Run, CallError> {
        let completion = self.client.heard(ticket.0);
        verbs::run_of(completion.ok_or(CallError::Faulty(Fault::Run))?)
    }

    /// The page of a get that hit.
    pub fn page(&self, ticket: Ticket) -> Option<&Page> {
        self.page_of_run(ticket, 0)
    }

    /// Page `n` of a get's run, if that hit.
    pub fn page_of_run(&self, ticket: Ticket, n: usize) -> Option<&Page> {
        let asked = self.client.asked(ticket.0)?;
        if asked.opcode != Opcode::Get as u16 || !self.run(ticket).ok()?.is_done(n) {
            return None;
        }
        let slots = self.client.end().pages(asked.page_slot, asked.count);
        slots.get(n)
    }
}
