//! Requests of a task that travel together.

use std::collections::VecDeque;
use std::ops::Range;

use sublet_types::{ObjectId, PoolId};

use super::asynchronous::{AsyncClient, Hearing, Pages};
use super::batch::{BatchError, Ticket, is_run};
use super::client_end::Page;
use super::layout::{Fault, Opcode, Submission};
use super::verbs::{self, CallError, Get, Key, Put, Run};

/// Requests that are gathered, to be run together: the ring is rung once, and the task wakes when answers come, not
/// for each. Their pages lie with the batch, since other tasks use the ring meanwhile; they are copied into the ring and out of it.
#[derive(Debug)]
pub struct AsyncBatch<'a> {
    client: &'a AsyncClient,
    asked: Vec<Asked>,
    pages: Vec<Page>,
}

/// A request, and its places among the pages of the batch.
#[derive(Clone, Debug)]
struct Asked {
    submission: Submission,
    pages: Range<usize>,
}

impl Asked {
    fn is_get(&self) -> bool {
        self.submission.opcode == Opcode::Get as u16
    }

    fn pages<'p>(&self, pages: &'p [Page]) -> Pages<'p> {
        match self.pages.len() {
            0 => Pages::None,
            count if self.is_get() => Pages::Empty(count as u32),
            _ => Pages::Filled(&pages[self.pages.clone()]),
        }
    }
}

impl AsyncClient {
    /// Begins a batch: requests that travel together. Other tasks are served meanwhile.
    pub fn batch(&self) -> AsyncBatch<'_> {
        AsyncBatch {
            client: self,
            asked: Vec::new(),
            pages: Vec::new(),
        }
    }
}

impl AsyncBatch<'_> {
    /// Adds a put, and gives the page that it stores, to be filled. It holds zeroes before.
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
        let (ticket, places) = self.add_run(Opcode::Put, first, count)?;
        Ok((ticket, &mut self.pages[places]))
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
        self.flush_run(key, 1)
    }

    /// Adds a flush of `count` pages at indices that follow each other.
    ///
    /// # Errors
    ///
    /// The batch is full, or that is no run.
    pub fn flush_run(&mut self, first: Key, count: u32) -> Result<Ticket, BatchError> {
        is_run(count)?;
        self.add(verbs::run(Opcode::FlushPage, first, count, 0), 0)
    }

    /// Adds a flush of an object.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn flush_object(&mut self, pool: PoolId, object: ObjectId) -> Result<Ticket, BatchError> {
        self.add(verbs::flush_object(pool, object), 0)
    }

    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Runs all requests, in the order in which they were added, and waits until all are answered. Where other tasks fill
    /// the ring, the batch goes in parts. If this future is dropped, what was submitted is carried out, and what was not is not.
    ///
    /// # Errors
    ///
    /// The connection is over. What a request came to by itself is asked of the [`AsyncAnswers`].
    pub async fn run(mut self) -> Result<AsyncAnswers, CallError> {
        let mut came = Vec::with_capacity(self.asked.len());
        let mut under_way = VecDeque::new();
        while came.len() < self.asked.len() {
            let freed = self.client.desk().freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let submitted = came.len() + under_way.len();
            under_way.extend(self.submit_from(submitted)?);
            match under_way.pop_front() {
                // Who waits for an answer lets go of its page slots then; who waits for others holds none.
                Some(answer) => {
                    let run = self.hear(came.len(), answer).await?;
                    came.push(run);
                }
                None => freed.await,
            }
        }
        Ok(AsyncAnswers {
            asked: self.asked,
            came,
            pages: self.pages,
        })
    }

    /// Submits what the ring has room for, from that request on.
    fn submit_from(&self, place: usize) -> Result<Vec<Hearing>, CallError> {
        let left = &self.asked[place..];
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let entries = left
            .iter()
            .map(|asked| (asked.submission, asked.pages(&self.pages)));
        self.client.desk().submit(entries)
    }

    /// Waits for what a request came to, and copies out what it hit. A connection that is over is an error of the batch.
    async fn hear(
        &mut self,
        place: usize,
        answer: Hearing,
    ) -> Result<Result<Run, CallError>, CallError> {
        let (completion, held) = self.client.desk().heard(answer).await?;
        let run = verbs::run_of(&completion);
        let asked = &self.asked[place];
        if let (Ok(run), true) = (run, asked.is_get()) {
            held.copy_hits(run, &mut self.pages[asked.pages.clone()]);
        }
        Ok(run)
    }

    fn add_run(
        &mut self,
        opcode: Opcode,
        first: Key,
        count: u32,
    ) -> Result<(Ticket, Range<usize>), BatchError> {
        is_run(count)?;
        let used = self.pages.len();
        if !self.client.shape().has_slots(used as u32, count) {
            return Err(BatchError::PageSlots);
        }
        let ticket = self.add(verbs::run(opcode, first, count, 0), count as usize)?;
        self.pages.resize(used + count as usize, [0; 4096]);
        Ok((ticket, used..self.pages.len()))
    }

    fn add(&mut self, submission: Submission, count: usize) -> Result<Ticket, BatchError> {
        if self.len() >= self.client.shape().entries() as usize {
            return Err(BatchError::Entries);
        }
        let used = self.pages.len();
        let pages = used..used + count;
        self.asked.push(Asked { submission, pages });
        Ok(Ticket::at(self.asked.len() - 1))
    }
}

/// What a task's batch came to, with the pages that were hit.
#[derive(Debug)]
pub struct AsyncAnswers {
    asked: Vec<Asked>,
    came: Vec<Result<Run, CallError>>,
    pages: Vec<Page>,
}

impl AsyncAnswers {
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
        let came = self.came.get(ticket.place());
        came.copied().unwrap_or(Err(CallError::Faulty(Fault::Run)))
    }

    /// The page of a get that hit.
    pub fn page(&self, ticket: Ticket) -> Option<&Page> {
        self.page_of_run(ticket, 0)
    }

    /// Page `n` of a get's run, if that hit.
    pub fn page_of_run(&self, ticket: Ticket, n: usize) -> Option<&Page> {
        let asked = self.asked.get(ticket.place())?;
        if !asked.is_get() || !self.run(ticket).ok()?.is_done(n) {
            return None;
        }
        self.pages[asked.pages.clone()].get(n)
    }
}
