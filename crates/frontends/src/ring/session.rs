//! One connection's requests: out of its ring, into a tenancy, and the answers back.

use std::iter::Take;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Drain;

use sublet_client::ring::layout::{Completion, Outcome, Submission};
use sublet_client::ring::{
    CorruptIndex, DaemonEnd, Fault, GetOutcome, PageSlot, PutOutcome, Refusal, SlotRun, Wakeup,
    hello,
};
use sublet_store::{PageKey, Spill, UnwrittenPage};
use sublet_types::{PoolFlags, PoolId, SharedName};

use super::Settings;
use super::map::{ConnectionPools, JoinedPools, NamedPool, UnclaimedPools};
use super::metrics::{Operation, RingFigures, RingTally};
use super::page_copy::read_page;
use super::page_operations::{PageOperations, page_key};
use super::wire::{self, PageRun, Request};
use crate::clock::MonotonicClock;

/// What one turn of a connection may cost before others get theirs. Each entry and each of its pages costs 1. A request
/// that may take its time costs a whole turn. The batch that goes beyond the limit is still finished.
const TURN_COST_MAX: u32 = 256;

/// The cost of one piece of a removal.
const REMOVAL_COST: u32 = TURN_COST_MAX / 4;

/// How long a turn may take, because a get may have to wait for the disk or the lender that its page went to. The batch
/// that goes beyond the limit is still finished.
const TURN_TIME_MAX: Duration = Duration::from_millis(4);

/// How many pages a batch has, so that the store can handle them together.
const BATCH_PAGES: u32 = 32;

/// The most requests of a batch.
const BATCH_MAX: usize = BATCH_PAGES as usize;

/// How many completions are published together.
const PUBLISHED_TOGETHER: u32 = 4;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingTurnEnd {
    /// Everything that was asked is answered, as far as there is room for completions.
    Drained,
    /// There is more to do, but others get their turn first.
    Again,
}

/// Why a run under the pin ended.
enum BatchEnd {
    Turn(RingTurnEnd),
    Slow(Submission, SlowRequest),
}

/// What a turn has cost so far.
struct TurnBudget {
    cost: u32,
    clock: MonotonicClock,
    since: Duration,
}

impl TurnBudget {
    fn begin(clock: MonotonicClock) -> TurnBudget {
        let since = clock.coarse();
        TurnBudget {
            cost: 0,
            clock,
            since,
        }
    }

    fn is_exhausted(&self) -> bool {
        self.cost >= TURN_COST_MAX || self.clock.coarse() - self.since > TURN_TIME_MAX
    }
}

/// A request that may take its time.
enum SlowRequest {
    FlushObject(PoolId, sublet_types::ObjectId),
    CreatePool(PoolFlags, Option<SharedName>),
    DestroyPool(PoolId),
}

/// A request for some pages, which is answered at once.
#[derive(Clone, Copy)]
enum PageRequest {
    Put(PageRun, SlotRun),
    Get(PageRun, SlotRun),
    Flush(PageRun),
}

/// A submission from the ring, and what it asks.
type ParsedSubmission = (Submission, Result<PageRequest, Fault>);

/// The pages of consecutive requests of one verb, and their outcomes.
#[derive(Default)]
struct PageBatch {
    keys: Vec<PageKey>,
    slots: Vec<PageSlot>,
    puts: Vec<PutOutcome>,
    gets: Vec<GetOutcome>,
}

impl PageBatch {
    /// Collects the pages of those requests whose pools the client may name.
    fn gather(&mut self, requests: &[ParsedSubmission], pools: &ConnectionPools) {
        self.keys.clear();
        self.slots.clear();
        for (_, request) in requests {
            if let Ok(PageRequest::Put(run, slots) | PageRequest::Get(run, slots)) = request
                && pools.check(run.pool()).is_ok()
            {
                let pages = run.keys().map(page_key).zip(slots.slots());
                let (keys, slots) = (&mut self.keys, &mut self.slots);
                pages.for_each(|(key, slot)| {
                    keys.push(key);
                    slots.push(slot);
                });
            }
        }
    }
}

/// One connection's ring and pools.
pub(super) struct Session<R> {
    end: DaemonEnd,
    pools: ConnectionPools,
    /// The flush or the end of a pool that is under way, and its removal. The session answers it before anything else.
    pending_flush: Option<(Submission, R)>,
    /// Scratch space for a batch.
    batch: Vec<ParsedSubmission>,
    page_batch: PageBatch,
    /// What the session counted in this turn.
    tally: RingTally,
}

/// What a session needs for one turn.
pub(super) struct SessionResources<'a, P, S> {
    pub(super) pages: &'a P,
    pub(super) settings: &'a Settings,
    pub(super) joined_pools: &'a JoinedPools,
    pub(super) unclaimed_pools: &'a UnclaimedPools,
    pub(super) figures: &'a RingFigures,
    pub(super) clock: MonotonicClock,
    /// The socket that carries the client's doorbell.
    pub(super) socket: S,
}

impl<R> Session<R> {
    pub(super) fn new(end: DaemonEnd) -> Session<R> {
        Session {
            end,
            pools: ConnectionPools::default(),
            pending_flush: None,
            batch: Vec::with_capacity(BATCH_MAX),
            page_batch: PageBatch::default(),
            tally: RingTally::default(),
        }
    }

    pub(super) fn end(&self) -> &DaemonEnd {
        &self.end
    }

    /// Answers requests, for at most the cost of a turn.
    pub(super) fn serve_turn<P: PageOperations<Removal = R>, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
    ) -> Result<RingTurnEnd, CorruptIndex> {
        let mut budget = TurnBudget::begin(resources.clock);
        let turn_end = loop {
            if !self.continue_removal(resources, &mut budget) {
                break Ok(RingTurnEnd::Again);
            }
            let batch_end = resources.pages.pinned(|| self.run(resources, &mut budget));
            match batch_end {
                Ok(BatchEnd::Turn(turn)) => break Ok(turn),
                Ok(BatchEnd::Slow(submission, slow)) => {
                    budget.cost += TURN_COST_MAX;
                    self.run_slow(resources, submission, slow);
                }
                Err(garbage) => break Err(garbage),
            }
        };
        // This comes before the last completions are published, so that a client that has its answer finds it counted.
        resources.figures.count(std::mem::take(&mut self.tally));
        self.publish(resources);
        turn_end
    }

    /// Ends the pools that end with the connection: those without a name. Returns the removals to carry out.
    pub(super) fn close(
        &mut self,
        pages: &impl PageOperations<Removal = R>,
        names: &JoinedPools,
    ) -> Vec<R> {
        let removal = self.pending_flush.take().map(|(_, removal)| removal);
        let ended = self.pools.drain().into_iter();
        let left = ended.filter_map(|known| match known.shared {
            Some(name) => {
                names.disconnect(name);
                None
            }
            None => pages.end_pool(known.pool),
        });
        removal.into_iter().chain(left).collect()
    }

    /// Continues the pending removal, and answers its request when it is done. Returns false if the turn is over before
    /// that.
    fn continue_removal<P: PageOperations<Removal = R>, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        budget: &mut TurnBudget,
    ) -> bool {
        let Some((submission, mut removal)) = self.pending_flush.take() else {
            return true;
        };
        while resources.pages.remove_some(&mut removal) {
            budget.cost += REMOVAL_COST;
            if budget.is_exhausted() {
                self.pending_flush = Some((submission, removal));
                return false;
            }
        }
        self.complete(resources, &wire::completion(&submission, Outcome::Done));
        true
    }

    /// Runs batch after batch, until a request may take its time or the turn is over.
    fn run<P: PageOperations, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        budget: &mut TurnBudget,
    ) -> Result<BatchEnd, CorruptIndex> {
        let mut batch = std::mem::take(&mut self.batch);
        let batch_end = loop {
            if budget.is_exhausted() {
                break Ok(BatchEnd::Turn(RingTurnEnd::Again));
            }
            batch.clear();
            let slow = match self.take_batch(&mut batch) {
                Ok(slow) => slow,
                Err(garbage) => break Err(garbage),
            };
            if batch.is_empty() && slow.is_none() {
                break Ok(BatchEnd::Turn(RingTurnEnd::Drained));
            }
            for requests in batch.chunk_by(can_batch_with) {
                self.answer(resources, requests);
            }
            budget.cost += batch.iter().map(|parsed| 1 + pages_of(parsed)).sum::<u32>();
            if let Some((submission, slow)) = slow {
                budget.cost += 1;
                break Ok(BatchEnd::Slow(submission, slow));
            }
        };
        self.batch = batch;
        batch_end
    }

    /// Takes submissions that are answered together, up to one that may take its time. That one is answered last.
    fn take_batch(
        &mut self,
        batch: &mut Vec<ParsedSubmission>,
    ) -> Result<Option<(Submission, SlowRequest)>, CorruptIndex> {
        let mut pages = 0;
        while pages < BATCH_PAGES && batch.len() < BATCH_MAX {
            let submission = match self.end.dequeue() {
                Ok(Some(submission)) => submission,
                Ok(None) => break,
                Err(_) if !batch.is_empty() => break, // what came before it is answered
                Err(garbage) => return Err(garbage),
            };
            let request = wire::parse(&submission, |first, count| self.end.slots(first, count));
            let parsed = match request.map(classify) {
                Err(fault) => Err(fault),
                Ok(Ok(paged)) => Ok(paged),
                Ok(Err(slow)) => return Ok(Some((submission, slow))),
            };
            let parsed = (submission, parsed);
            pages += pages_of(&parsed);
            batch.push(parsed);
        }
        Ok(None)
    }

    /// Answers requests that were batched together.
    fn answer<P: PageOperations, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        requests: &[ParsedSubmission],
    ) {
        let Some((submission, request)) = requests.first() else {
            return;
        };
        let completion = match request {
            Ok(PageRequest::Put(..)) => return self.put(resources, requests),
            Ok(PageRequest::Get(..)) => return self.get(resources, requests),
            Ok(PageRequest::Flush(run)) => self.flush(resources, submission, *run),
            Err(fault) => wire::completion(submission, Outcome::Faulty(*fault)),
        };
        self.complete(resources, &completion);
    }

    fn put<P: PageOperations, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        requests: &[ParsedSubmission],
    ) {
        let mut page_batch = std::mem::take(&mut self.page_batch);
        page_batch.gather(requests, &self.pools);
        let PageBatch {
            keys, slots, puts, ..
        } = &mut page_batch;
        let fill = |n: usize, page: &mut UnwrittenPage<'_>| read_page(&self.end, slots[n], page);
        puts.resize(keys.len(), PutOutcome::Refused(Refusal::Failed));
        resources
            .pages
            .put_pages(keys, fill, |n, put| puts[n] = put);
        self.complete_requests(resources, requests, puts, |session, submission, puts| {
            session.put_completion(submission, puts)
        });
        self.page_batch = page_batch;
    }

    /// Answers each request with the outcomes of its pages.
    fn complete_requests<P, S: AsFd, T>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        requests: &[ParsedSubmission],
        outcomes: &mut Vec<T>,
        completion_of: impl Fn(&mut Session<R>, &Submission, Take<&mut Drain<'_, T>>) -> Completion,
    ) {
        let mut outcomes = outcomes.drain(..);
        for (submission, request) in requests {
            let Ok(PageRequest::Put(run, _) | PageRequest::Get(run, _)) = request else {
                continue;
            };
            let completion = match self.pools.check(run.pool()) {
                Ok(()) => completion_of(
                    self,
                    submission,
                    outcomes.by_ref().take(run.count() as usize),
                ),
                Err(fault) => wire::completion(submission, Outcome::Faulty(fault)),
            };
            self.complete(resources, &completion);
        }
    }

    fn put_completion(
        &mut self,
        submission: &Submission,
        puts: impl Iterator<Item = PutOutcome>,
    ) -> Completion {
        let (mut stored, mut replaced, mut refused, mut refusal) = (0u64, 0u64, 0, None);
        for (n, put) in puts.enumerate() {
            match put {
                PutOutcome::Stored => stored |= 1 << n,
                PutOutcome::Replaced => {
                    stored |= 1 << n;
                    replaced |= 1 << n;
                }
                PutOutcome::Refused(why) => {
                    refused += 1;
                    refusal.get_or_insert(why);
                }
            }
        }
        let (old, all) = (replaced.count_ones(), stored.count_ones());
        self.tally.add(Operation::PutReplaced, old);
        self.tally.add(Operation::PutStored, all - old);
        self.tally.add(Operation::PutRefused, refused);
        Completion {
            first: stored,
            second: replaced,
            ..wire::completion(submission, outcome_of(refusal))
        }
    }

    fn get<P: PageOperations, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        requests: &[ParsedSubmission],
    ) {
        let mut page_batch = std::mem::take(&mut self.page_batch);
        page_batch.gather(requests, &self.pools);
        let PageBatch {
            keys, slots, gets, ..
        } = &mut page_batch;
        let visit = |n: usize, page: &[u8]| self.end.write_page(slots[n], page);
        gets.resize(keys.len(), GetOutcome::Refused(Refusal::Failed));
        resources
            .pages
            .get_pages(keys, visit, |n, got| gets[n] = got);
        self.complete_requests(resources, requests, gets, |session, submission, gets| {
            session.get_completion(submission, gets)
        });
        self.page_batch = page_batch;
    }

    fn get_completion(
        &mut self,
        submission: &Submission,
        gets: impl Iterator<Item = GetOutcome>,
    ) -> Completion {
        let (mut hits, mut missed, mut refused, mut refusal) = (0u64, 0, 0, None);
        for (n, got) in gets.enumerate() {
            match got {
                GetOutcome::Hit => hits |= 1 << n,
                GetOutcome::Miss => missed += 1,
                GetOutcome::Refused(why) => {
                    refused += 1;
                    refusal.get_or_insert(why);
                }
            }
        }
        self.tally.add(Operation::GetHit, hits.count_ones());
        self.tally.add(Operation::GetRefused, refused);
        self.tally.add(Operation::GetMissed, missed);
        Completion {
            first: hits,
            ..wire::completion(submission, outcome_of(refusal))
        }
    }

    fn flush<P: PageOperations, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        submission: &Submission,
        run: PageRun,
    ) -> Completion {
        if let Err(fault) = self.pools.check(run.pool()) {
            return wire::completion(submission, Outcome::Faulty(fault));
        }
        run.keys().for_each(|key| resources.pages.flush_page(key));
        self.tally.add(Operation::FlushPageDone, run.count());
        wire::completion(submission, Outcome::Done)
    }

    /// Carries out a request that may take its time, or begins to.
    fn run_slow<P: PageOperations<Removal = R>, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        submission: Submission,
        slow: SlowRequest,
    ) {
        let pages = resources.pages;
        let removal = match slow {
            SlowRequest::CreatePool(flags, shared) => {
                let completion = match self.create_pool(resources, flags, shared) {
                    Ok(pool) => Completion {
                        first: sublet_client::ring::layout::handle_of(pool),
                        ..wire::completion(&submission, Outcome::Done)
                    },
                    Err(refusal) => wire::completion(&submission, Outcome::Refused(refusal)),
                };
                return self.complete(resources, &completion);
            }
            SlowRequest::FlushObject(pool, object) => self
                .pools
                .check(pool)
                .map(|()| pages.begin_flush_object(pool, object)),
            SlowRequest::DestroyPool(pool) => self
                .pools
                .remove(pool)
                .map(|known| end_pool(resources, known)),
        };
        match removal {
            Ok(Some(removal)) => self.pending_flush = Some((submission, removal)),
            Ok(None) => self.complete(resources, &wire::completion(&submission, Outcome::Done)),
            Err(fault) => self.complete(
                resources,
                &wire::completion(&submission, Outcome::Faulty(fault)),
            ),
        }
    }

    fn create_pool<P: PageOperations, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        flags: PoolFlags,
        shared: Option<SharedName>,
    ) -> Result<PoolId, Refusal> {
        if let Some(joined) = self.pools.joined(shared) {
            return Ok(joined);
        }
        self.pools.check_room()?;
        if let Some(pool) = resources.unclaimed_pools.claim(flags) {
            self.pools.insert(pool, None);
            return Ok(pool);
        }
        let spill = match flags.persistent {
            true => Some(spill_of(resources.settings)?),
            false => None,
        };
        let create = || resources.pages.create_pool(flags, shared, spill);
        let pool = match shared {
            Some(name) => resources.joined_pools.join(name, create)?,
            None => create()?,
        };
        self.pools.insert(pool, shared);
        Ok(pool)
    }

    fn complete<P, S: AsFd>(
        &mut self,
        resources: &SessionResources<'_, P, S>,
        completion: &Completion,
    ) {
        self.tally.record_completion(completion);
        self.end.complete(completion);
        if self.end.unpublished() >= PUBLISHED_TOGETHER {
            self.publish(resources);
        }
    }

    fn publish<P, S: AsFd>(&mut self, resources: &SessionResources<'_, P, S>) {
        if self.end.publish() == Wakeup::Needed {
            resources.figures.bells_rung.bump();
            hello::ring_doorbell(&resources.socket);
        }
    }
}

/// Sorts a request: `Ok` is answered at once, `Err` may take its time.
fn classify(request: Request) -> Result<PageRequest, SlowRequest> {
    match request {
        Request::Put(run, slots) => Ok(PageRequest::Put(run, slots)),
        Request::Get(run, slots) => Ok(PageRequest::Get(run, slots)),
        Request::FlushPage(run) => Ok(PageRequest::Flush(run)),
        Request::FlushObject(pool, object) => Err(SlowRequest::FlushObject(pool, object)),
        Request::CreatePool(flags, shared) => Err(SlowRequest::CreatePool(flags, shared)),
        Request::DestroyPool(pool) => Err(SlowRequest::DestroyPool(pool)),
    }
}

/// Returns whether two consecutive requests are answered together.
fn can_batch_with((_, one): &ParsedSubmission, (_, next): &ParsedSubmission) -> bool {
    matches!(
        (one, next),
        (Ok(PageRequest::Put(..)), Ok(PageRequest::Put(..)))
            | (Ok(PageRequest::Get(..)), Ok(PageRequest::Get(..)))
    )
}

/// How many pages a request has.
fn pages_of((_, request): &ParsedSubmission) -> u32 {
    match request {
        Ok(PageRequest::Put(run, _) | PageRequest::Get(run, _) | PageRequest::Flush(run)) => {
            run.count()
        }
        Err(_) => 0,
    }
}

fn end_pool<P: PageOperations, S>(
    resources: &SessionResources<'_, P, S>,
    known: NamedPool,
) -> Option<P::Removal> {
    let end = || resources.pages.end_pool(known.pool);
    match known.shared {
        Some(name) => resources.joined_pools.leave(name, end),
        None => end(),
    }
}

fn spill_of(settings: &Settings) -> Result<Arc<dyn Spill>, Refusal> {
    let spills = settings.spill.as_ref().ok_or(Refusal::NoSpill)?;
    spills.create().map_err(|error| {
        tracing::debug!(%error, "the daemon cannot make a spill file and refuses a client its persistent pool; it serves the client's other pools");
        Refusal::Failed
    })
}

fn outcome_of(refusal: Option<Refusal>) -> Outcome {
    refusal.map_or(Outcome::Done, Outcome::Refused)
}
