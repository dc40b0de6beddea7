//! Requests that the client sends together.

use sublet_types::{ObjectId, PoolId};

use super::client::Client;
use super::client_end::Page;
use super::layout::{Fault, Opcode, RUN_PAGES_MAX, Submission};
use super::verbs::{self, CallError, GetOutcome, Key, PutOutcome, RunOutcome};

/// Why the batch takes no more requests. Run it, and begin another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The batch has as many requests as the ring has entries.
    #[error("the batch holds as many requests as the ring has entries: run it first")]
    Entries,
    /// The batch has as many pages as the ring has page slots.
    #[error("the batch holds as many pages as the ring has page slots: run it first")]
    PageSlots,
    /// Another process connected; see [`CallError::Forked`].
    #[error("another process opened this ring and forked this one: connect in this process, too")]
    Forked,
    /// A run has 1 to 64 pages.
    #[error("a run has 1 to {RUN_PAGES_MAX} pages")]
    Run,
}

/// Names a request of a batch, to ask for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(usize);

impl Ticket {
    /// The request's place in its batch, counted from 0.
    pub fn place(self) -> usize {
        self.0
    }

    /// The ticket of the request at this place.
    pub fn at(place: usize) -> Ticket {
        Ticket(place)
    }
}

/// Requests that are collected to run together. Their pages lie where daemon and client both see them, so the client
/// copies nothing.
#[derive(Debug)]
pub struct Batch<'a> {
    client: &'a mut Client,
    slots_used: u32,
    is_forked: bool,
}

impl Client {
    /// Begins a batch of requests that are sent together. You fill and read their pages in place.
    pub fn batch(&mut self) -> Batch<'_> {
        self.begin_batch();
        Batch {
            slots_used: 0,
            is_forked: self.check() == Err(CallError::Forked),
            client: self,
        }
    }
}

impl<'a> Batch<'a> {
    /// Continues a batch that was left while requests were added, with as many page slots used.
    #[cfg(feature = "ffi")]
    pub(crate) fn resume(client: &'a mut Client, slots_used: u32) -> Batch<'a> {
        Batch {
            client,
            slots_used,
            is_forked: false, // it was not, when it was begun
        }
    }

    /// How many page slots are used so far.
    #[cfg(feature = "ffi")]
    pub(crate) fn slots_used(&self) -> u32 {
        self.slots_used
    }

    /// Adds a put, and returns its page for you to fill. Until then the page holds whatever an earlier request left.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn put(&mut self, key: Key) -> Result<(Ticket, &mut Page), BatchError> {
        let (ticket, pages) = self.put_run(key, 1)?;
        Ok((ticket, &mut pages[0]))
    }

    /// Adds a put of `count` pages at consecutive indices.
    ///
    /// # Errors
    ///
    /// The batch is full, or `count` is out of range.
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

    /// Adds a get of `count` pages at consecutive indices.
    ///
    /// # Errors
    ///
    /// The batch is full, or `count` is out of range.
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
        self.add(verbs::run_submission(Opcode::FlushPage, key, 1, 0))
    }

    /// Adds a flush of `count` pages at consecutive indices.
    ///
    /// # Errors
    ///
    /// The batch is full, or `count` is out of range.
    pub fn flush_run(&mut self, first: Key, count: u32) -> Result<Ticket, BatchError> {
        check_run(count)?;
        self.add(verbs::run_submission(Opcode::FlushPage, first, count, 0))
    }

    /// Adds a flush of an object.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn flush_object(&mut self, pool: PoolId, object: ObjectId) -> Result<Ticket, BatchError> {
        self.add(verbs::flush_object(pool, object))
    }

    /// How many requests the batch holds.
    pub fn len(&self) -> usize {
        self.client.batch_len()
    }

    /// Returns whether the batch holds no request.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs all requests, in the order in which they were added. Waits until all are answered.
    ///
    /// # Errors
    ///
    /// The connection is closed. Ask the [`Answers`] for the outcome of a single request.
    pub fn run(self) -> Result<Answers<'a>, CallError> {
        self.client.run_batch()?;
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
        check_run(count)?;
        let slot = self.slots_used;
        if !self.client.shape().has_slots(slot, count) {
            return Err(BatchError::PageSlots);
        }
        let ticket = self.add(verbs::run_submission(opcode, first, count, slot))?;
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
        Ok(Ticket(self.client.add_submission(submission)))
    }
}

pub(super) fn check_run(count: u32) -> Result<(), BatchError> {
    match (1..=RUN_PAGES_MAX).contains(&count) {
        true => Ok(()),
        false => Err(BatchError::Run),
    }
}

/// The answers of a batch. You read pages that hit in place, until the next request.
#[derive(Debug)]
pub struct Answers<'a> {
    client: &'a mut Client,
}

#[cfg(feature = "ffi")]
impl<'a> Answers<'a> {
    /// The answers of the client's last batch.
    pub(crate) fn of(client: &'a mut Client) -> Answers<'a> {
        Answers { client }
    }

    /// Returns whether a request is a get.
    pub(crate) fn is_get(&self, ticket: Ticket) -> bool {
        let submission = self.client.submission(ticket.0);
        submission.is_some_and(|submission| submission.opcode == Opcode::Get as u16)
    }
}

impl Answers<'_> {
    /// The outcome of a put.
    ///
    /// # Errors
    ///
    /// The request was wrong.
    pub fn put(&self, ticket: Ticket) -> Result<PutOutcome, CallError> {
        self.run(ticket).map(|run| run.put())
    }

    /// The outcome of a get.
    ///
    /// # Errors
    ///
    /// The request was wrong.
    pub fn get(&self, ticket: Ticket) -> Result<GetOutcome, CallError> {
        self.run(ticket).map(|run| run.get())
    }

    /// The outcome of a run, or of a flush.
    ///
    /// # Errors
    ///
    /// The request was wrong.
    pub fn run(&self, ticket: Ticket) -> Result<RunOutcome, CallError> {
        let completion = self.client.completion(ticket.0);
        verbs::run_outcome(completion.ok_or(CallError::Faulty(Fault::Run))?)
    }

    /// The page of a get that hit.
    pub fn page(&self, ticket: Ticket) -> Option<&Page> {
        self.page_of_run(ticket, 0)
    }

    /// Page `n` of a get's run, if it hit.
    pub fn page_of_run(&self, ticket: Ticket, n: usize) -> Option<&Page> {
        let submission = self.client.submission(ticket.0)?;
        if submission.opcode != Opcode::Get as u16 || !self.run(ticket).ok()?.is_done(n) {
            return None;
        }
        let slots = self
            .client
            .end()
            .pages(submission.page_slot, submission.count);
        slots.get(n)
    }
}
