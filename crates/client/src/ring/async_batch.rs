//! Requests that a task sends together.

use std::collections::VecDeque;
use std::ops::Range;

use sublet_types::{ObjectId, PoolId};

use super::asynchronous::{AsyncClient, CompletionReceiver, RequestPages};
use super::batch::{BatchError, Ticket, check_run};
use super::client_end::Page;
use super::layout::{Fault, Opcode, Submission};
use super::verbs::{self, CallError, GetOutcome, Key, PutOutcome, RunOutcome};

/// Requests that are collected to run together. The doorbell is rung once, and the task wakes when answers come, not
/// for each. Other tasks use the ring meanwhile, so the batch keeps its pages itself. They are copied into the ring and
/// out of it.
#[derive(Debug)]
pub struct AsyncBatch<'a> {
    client: &'a AsyncClient,
    requests: Vec<BatchRequest>,
    pages: Vec<Page>,
}

/// A request, and the places of its pages in the batch.
#[derive(Clone, Debug)]
struct BatchRequest {
    submission: Submission,
    pages: Range<usize>,
}

impl BatchRequest {
    fn is_get(&self) -> bool {
        self.submission.opcode == Opcode::Get as u16
    }

    fn pages<'p>(&self, pages: &'p [Page]) -> RequestPages<'p> {
        match self.pages.len() {
            0 => RequestPages::None,
            count if self.is_get() => RequestPages::Wanted(count as u32),
            _ => RequestPages::Filled(&pages[self.pages.clone()]),
        }
    }
}

impl AsyncClient {
    /// Begins a batch of requests that are sent together. Other tasks are served meanwhile.
    pub fn batch(&self) -> AsyncBatch<'_> {
        AsyncBatch {
            client: self,
            requests: Vec::new(),
            pages: Vec::new(),
        }
    }
}

impl AsyncBatch<'_> {
    /// Adds a put, and returns its page for you to fill. Until then the page holds zeroes.
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
        self.flush_run(key, 1)
    }

    /// Adds a flush of `count` pages at consecutive indices.
    ///
    /// # Errors
    ///
    /// The batch is full, or `count` is out of range.
    pub fn flush_run(&mut self, first: Key, count: u32) -> Result<Ticket, BatchError> {
        check_run(count)?;
        self.add(verbs::run_submission(Opcode::FlushPage, first, count, 0), 0)
    }

    /// Adds a flush of an object.
    ///
    /// # Errors
    ///
    /// The batch is full.
    pub fn flush_object(&mut self, pool: PoolId, object: ObjectId) -> Result<Ticket, BatchError> {
        self.add(verbs::flush_object(pool, object), 0)
    }

    /// How many requests the batch holds.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether the batch holds no request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Runs all requests, in the order in which they were added. Waits until all are answered. If other tasks fill the
    /// ring, the batch goes in parts. If you drop this future, the daemon still carries out what was submitted, and
    /// nothing else.
    ///
    /// # Errors
    ///
    /// The connection is closed. Ask the [`AsyncAnswers`] for the outcome of a single request.
    pub async fn run(mut self) -> Result<AsyncAnswers, CallError> {
        let mut outcomes = Vec::with_capacity(self.requests.len());
        let mut under_way = VecDeque::new();
        while outcomes.len() < self.requests.len() {
            let freed = self.client.shared_ring().freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let submitted = outcomes.len() + under_way.len();
            under_way.extend(self.submit_from(submitted)?);
            match under_way.pop_front() {
                // A task that waits for an answer frees its page slots when it comes. A task that waits for others
                // holds none.
                Some(answer) => {
                    let run = self.await_outcome(outcomes.len(), answer).await?;
                    outcomes.push(run);
                }
                None => freed.await,
            }
        }
        Ok(AsyncAnswers {
            requests: self.requests,
            outcomes,
            pages: self.pages,
        })
    }

    /// Submits as much as the ring has room for, from that request on.
    fn submit_from(&self, place: usize) -> Result<Vec<CompletionReceiver>, CallError> {
        let left = &self.requests[place..];
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let entries = left
            .iter()
            .map(|request| (request.submission, request.pages(&self.pages)));
        self.client.shared_ring().submit(entries)
    }

    /// Waits for the outcome of a request, and copies out the pages that hit. If the connection is closed, the whole
    /// batch fails.
    async fn await_outcome(
        &mut self,
        place: usize,
        answer: CompletionReceiver,
    ) -> Result<Result<RunOutcome, CallError>, CallError> {
        let (completion, slots) = self.client.shared_ring().await_completion(answer).await?;
        let run = verbs::run_outcome(&completion);
        let request = &self.requests[place];
        if let (Ok(run), true) = (run, request.is_get()) {
            slots.copy_hits(run, &mut self.pages[request.pages.clone()]);
        }
        Ok(run)
    }

    fn add_run(
        &mut self,
        opcode: Opcode,
        first: Key,
        count: u32,
    ) -> Result<(Ticket, Range<usize>), BatchError> {
        check_run(count)?;
        let used = self.pages.len();
        if !self.client.shape().has_slots(used as u32, count) {
            return Err(BatchError::PageSlots);
        }
        let ticket = self.add(
            verbs::run_submission(opcode, first, count, 0),
            count as usize,
        )?;
        self.pages.resize(used + count as usize, [0; 4096]);
        Ok((ticket, used..self.pages.len()))
    }

    fn add(&mut self, submission: Submission, count: usize) -> Result<Ticket, BatchError> {
        if self.len() >= self.client.shape().entries() as usize {
            return Err(BatchError::Entries);
        }
        let used = self.pages.len();
        let pages = used..used + count;
        self.requests.push(BatchRequest { submission, pages });
        Ok(Ticket::at(self.requests.len() - 1))
    }
}

/// The answers of a task's batch, with the pages that hit.
#[derive(Debug)]
pub struct AsyncAnswers {
    requests: Vec<BatchRequest>,
    outcomes: Vec<Result<RunOutcome, CallError>>,
    pages: Vec<Page>,
}

impl AsyncAnswers {
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
        let outcomes = self.outcomes.get(ticket.place());
        outcomes
            .copied()
            .unwrap_or(Err(CallError::Faulty(Fault::Run)))
    }

    /// The page of a get that hit.
    pub fn page(&self, ticket: Ticket) -> Option<&Page> {
        self.page_of_run(ticket, 0)
    }

    /// Page `n` of a get's run, if it hit.
    pub fn page_of_run(&self, ticket: Ticket, n: usize) -> Option<&Page> {
        let request = self.requests.get(ticket.place())?;
        if !request.is_get() || !self.run(ticket).ok()?.is_done(n) {
            return None;
        }
        self.pages[request.pages.clone()].get(n)
    }
}
