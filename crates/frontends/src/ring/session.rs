//! One connection's requests: out of its ring, into a tenancy, and the answers back.

use std::os::fd::AsFd;
use std::sync::Arc;

use sublet_client::ring::layout::{Completion, Outcome, Submission};
use sublet_client::ring::{Bell, DaemonEnd, Fault, Garbage, Get, Put, Refusal, SlotRun, hello};
use sublet_store::{LOOK_AHEAD, PageVerb, Spill};
use sublet_types::{PoolFlags, PoolId, SharedName};

use super::Settings;
use super::map::{Known, Names, Pools, Restored};
use super::metrics::{Figures, Operation, Tally};
use super::pages::Pages;
use super::wire::{self, PageRun, Request};

/// What one turn of a connection may cost before others get theirs, but for the batch that exceeds it: an entry, and each
/// of its pages. What may take its time costs a whole turn.
const TURN_COST_MAX: u32 = 256;

/// Completions that the client sees together.
const PUBLISHED_TOGETHER: u32 = 4;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// All that was asked is answered, as far as there is room for answers.
    Rest,
    /// There is more to do, but it is the others' turn.
    Again,
}

/// Why the pin was let go.
enum Pause {
    Turn(Turn),
    Slow(Submission, Slow),
}

/// A request that may take its time.
enum Slow {
    FlushObject(PoolId, sublet_types::ObjectId),
    CreatePool(PoolFlags, Option<SharedName>),
    DestroyPool(PoolId),
}

/// A request about some pages, which is answered at once.
#[derive(Clone, Copy)]
enum Paged {
    Put(PageRun, SlotRun),
    Get(PageRun, SlotRun),
    Flush(PageRun),
}

/// A submission that was taken out of the ring, and what it asks.
type Asked = (Submission, Result<Paged, Fault>);

/// One connection's ring and pools.
pub(super) struct Session {
    end: DaemonEnd,
    pools: Pools,
    /// Room for a batch.
    batch: Vec<Asked>,
    /// What was counted in this turn.
    tally: Tally,
}

/// Where a session's requests go, for one turn.
pub(super) struct Place<'a, P, S> {
    pub(super) pages: &'a P,
    pub(super) settings: &'a Settings,
    pub(super) names: &'a Names,
    pub(super) restored: &'a Restored,
    pub(super) figures: &'a Figures,
    /// The client's doorbell.
    pub(super) socket: S,
}

impl Session {
    pub(super) fn new(end: DaemonEnd) -> Session {
        Session {
            end,
            pools: Pools::default(),
            batch: Vec::with_capacity(LOOK_AHEAD),
            tally: Tally::default(),
        }
    }

    pub(super) fn end(&self) -> &DaemonEnd {
        &self.end
    }

    /// Answers what has been asked, for at most a turn's cost.
    pub(super) fn turn<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
    ) -> Result<Turn, Garbage> {
        let mut cost = 0;
        let turned = loop {
            let paused = place.pages.pinned(|| self.run(place, &mut cost));
            match paused {
                Ok(Pause::Turn(turn)) => break Ok(turn),
                Ok(Pause::Slow(submission, slow)) => {
                    cost += TURN_COST_MAX;
                    let completion = self.take_time(place, &submission, slow);
                    self.complete(place, &completion);
                }
                Err(garbage) => break Err(garbage),
            }
        };
        // Before the last answers are seen: who has his answer finds it counted.
        place.figures.count(std::mem::take(&mut self.tally));
        self.publish(place);
        turned
    }

    /// Forgets all pools that end with the connection: those without a name.
    pub(super) fn close(&mut self, pages: &impl Pages, names: &Names) {
        for known in self.pools.strike_all() {
            match known.shared {
                Some(name) => names.part(name),
                None => pages.destroy_pool(known.pool),
            }
        }
    }

    /// Batch by batch, until something takes longer or the turn is over.
    fn run<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        cost: &mut u32,
    ) -> Result<Pause, Garbage> {
        let mut batch = std::mem::take(&mut self.batch);
        let paused = loop {
            if *cost >= TURN_COST_MAX {
                break Ok(Pause::Turn(Turn::Again));
            }
            batch.clear();
            let slow = match self.take_batch(&mut batch) {
                Ok(slow) => slow,
                Err(garbage) => break Err(garbage),
            };
            if batch.is_empty() && slow.is_none() {
                break Ok(Pause::Turn(Turn::Rest));
            }
            look_ahead(place.pages, &batch);
            for (submission, request) in &batch {
                *cost += 1 + pages_of(request);
                let completion = self.answer(place, submission, *request);
                self.complete(place, &completion);
            }
            if let Some((submission, slow)) = slow {
                *cost += 1;
                break Ok(Pause::Slow(submission, slow));
            }
        };
        self.batch = batch;
        paused
    }

    /// Takes submissions whose pages are looked ahead for together, up to one that may take its time: that is answered
    /// last.
    fn take_batch(
        &mut self,
        batch: &mut Vec<Asked>,
    ) -> Result<Option<(Submission, Slow)>, Garbage> {
        let mut pages = 0;
        while pages < LOOK_AHEAD as u32 && batch.len() < LOOK_AHEAD {
            let submission = match self.end.take() {
                Ok(Some(submission)) => submission,
                Ok(None) => break,
                Err(_) if !batch.is_empty() => break, // what came before it is answered
                Err(garbage) => return Err(garbage),
            };
            let request = wire::parse(&submission, |first, count| self.end.slots(first, count));
            let asked = match request.map(at_once) {
                Err(fault) => Err(fault),
                Ok(Ok(paged)) => Ok(paged),
                Ok(Err(slow)) => return Ok(Some((submission, slow))),
            };
            pages += pages_of(&asked);
            batch.push((submission, asked));
        }
        Ok(None)
    }

    fn answer<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        submission: &Submission,
        request: Result<Paged, Fault>,
    ) -> Completion {
        match request {
            Err(fault) => wire::completion(submission, Outcome::Faulty(fault)),
            Ok(Paged::Put(run, slots)) => self.put(place, submission, run, slots),
            Ok(Paged::Get(run, slots)) => self.get(place, submission, run, slots),
            Ok(Paged::Flush(run)) => self.flush(place, submission, run),
        }
    }

    fn put<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        submission: &Submission,
        run: PageRun,
        slots: SlotRun,
    ) -> Completion {
        if let Err(fault) = self.pools.check(run.pool()) {
            return wire::completion(submission, Outcome::Faulty(fault));
        }
        let (mut stored, mut replaced, mut refusal) = (0u64, 0u64, None);
        for (n, (key, slot)) in run.keys().zip(slots.slots()).enumerate() {
            look_further(place.pages, PageVerb::Put, run, n);
            let fill = |page: &mut [u8]| self.end.read_page(slot, page);
            match place.pages.put_page(key, fill) {
                Put::Stored => stored |= 1 << n,
                Put::Replaced => {
                    stored |= 1 << n;
                    replaced |= 1 << n;
                }
                Put::Refused(why) => _ = refusal.get_or_insert(why),
            }
        }
        let (old, all) = (replaced.count_ones(), stored.count_ones());
        self.tally.add(Operation::PutReplaced, old);
        self.tally.add(Operation::PutStored, all - old);
        self.tally.add(Operation::PutRefused, slots.count() - all);
        Completion {
            first: stored,
            second: replaced,
            ..wire::completion(submission, outcome_of(refusal))
        }
    }

    fn get<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        submission: &Submission,
        run: PageRun,
        slots: SlotRun,
    ) -> Completion {
        if let Err(fault) = self.pools.check(run.pool()) {
            return wire::completion(submission, Outcome::Faulty(fault));
        }
        let (mut hits, mut refused, mut refusal) = (0u64, 0, None);
        for (n, (key, slot)) in run.keys().zip(slots.slots()).enumerate() {
            look_further(place.pages, PageVerb::Get, run, n);
            let visit = |page: &[u8]| self.end.write_page(slot, page);
            match place.pages.get_page(key, visit) {
                Get::Hit => hits |= 1 << n,
                Get::Miss => {}
                Get::Refused(why) => {
                    refused += 1;
                    refusal.get_or_insert(why);
                }
            }
        }
        let found = hits.count_ones();
        self.tally.add(Operation::GetHit, found);
        self.tally.add(Operation::GetRefused, refused);
        let missed = slots.count() - found - refused;
        self.tally.add(Operation::GetMissed, missed);
        Completion {
            first: hits,
            ..wire::completion(submission, outcome_of(refusal))
        }
    }

    fn flush<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        submission: &Submission,
        run: PageRun,
    ) -> Completion {
        if let Err(fault) = self.pools.check(run.pool()) {
            return wire::completion(submission, Outcome::Faulty(fault));
        }
        run.keys().for_each(|key| place.pages.flush_page(key));
        self.tally.add(Operation::FlushPageDone, run.count());
        wire::completion(submission, Outcome::Done)
    }

    fn take_time<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        submission: &Submission,
        slow: Slow,
    ) -> Completion {
        let pages = place.pages;
        let done = match slow {
            Slow::CreatePool(flags, shared) => {
                return match self.create_pool(place, flags, shared) {
                    Ok(pool) => Completion {
                        first: sublet_client::ring::layout::handle_of(pool),
                        ..wire::completion(submission, Outcome::Done)
                    },
                    Err(refusal) => wire::completion(submission, Outcome::Refused(refusal)),
                };
            }
            Slow::FlushObject(pool, object) => self
                .pools
                .check(pool)
                .map(|()| pages.flush_object(pool, object)),
            Slow::DestroyPool(pool) => self.pools.strike(pool).map(|known| destroy(place, known)),
        };
        let outcome = done.map_or_else(Outcome::Faulty, |()| Outcome::Done);
        wire::completion(submission, outcome)
    }

    fn create_pool<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        flags: PoolFlags,
        shared: Option<SharedName>,
    ) -> Result<PoolId, Refusal> {
        if let Some(joined) = self.pools.joined(shared) {
            return Ok(joined);
        }
        self.pools.check_room()?;
        if let Some(pool) = place.restored.claim(flags) {
            self.pools.enter(pool, None);
            return Ok(pool);
        }
        let spill = match flags.persistent {
            true => Some(spill_of(place.settings)?),
            false => None,
        };
        let create = || place.pages.create_pool(flags, shared, spill);
        let pool = match shared {
            Some(name) => place.names.enter(name, create)?,
            None => create()?,
        };
        self.pools.enter(pool, shared);
        Ok(pool)
    }

    fn complete<P, S: AsFd>(&mut self, place: &Place<'_, P, S>, completion: &Completion) {
        self.tally.answered(completion);
        self.end.complete(completion);
        if self.end.unpublished() >= PUBLISHED_TOGETHER {
            self.publish(place);
        }
    }

    fn publish<P, S: AsFd>(&mut self, place: &Place<'_, P, S>) {
        if self.end.publish() == Bell::Ring {
            place.figures.bells_rung.bump();
            hello::ring(&place.socket);
        }
    }
}

/// A request as far as it is answered at once.
fn at_once(request: Request) -> Result<Paged, Slow> {
    match request {
        Request::Put(run, slots) => Ok(Paged::Put(run, slots)),
        Request::Get(run, slots) => Ok(Paged::Get(run, slots)),
        Request::FlushPage(run) => Ok(Paged::Flush(run)),
        Request::FlushObject(pool, object) => Err(Slow::FlushObject(pool, object)),
        Request::CreatePool(flags, shared) => Err(Slow::CreatePool(flags, shared)),
        Request::DestroyPool(pool) => Err(Slow::DestroyPool(pool)),
    }
}

/// How many pages a request is about.
fn pages_of(request: &Result<Paged, Fault>) -> u32 {
    match request {
        Ok(Paged::Put(run, _) | Paged::Get(run, _) | Paged::Flush(run)) => run.count(),
        Err(_) => 0,
    }
}

/// Looks ahead for the pages of a batch that are put, and for those that are got, where there are several.
fn look_ahead(pages: &impl Pages, batch: &[Asked]) {
    for verb in [PageVerb::Get, PageVerb::Put] {
        let runs = batch.iter().filter_map(|(_, request)| match request {
            Ok(Paged::Put(run, _)) if verb == PageVerb::Put => Some(*run),
            Ok(Paged::Get(run, _)) if verb == PageVerb::Get => Some(*run),
            _ => None,
        });
        if runs.clone().map(PageRun::count).sum::<u32>() > 1 {
            pages.look_ahead(verb, runs.flat_map(PageRun::keys));
        }
    }
}

/// Looks ahead from a long run's nth page on, each time that a batch's worth of it is done.
fn look_further(pages: &impl Pages, verb: PageVerb, run: PageRun, n: usize) {
    if n > 0 && n.is_multiple_of(LOOK_AHEAD) {
        pages.look_ahead(verb, run.keys().skip(n));
    }
}

fn destroy<P: Pages, S>(place: &Place<'_, P, S>, known: Known) {
    let destroy = || place.pages.destroy_pool(known.pool);
    match known.shared {
        Some(name) => place.names.leave(name, destroy),
        None => destroy(),
    }
}

fn spill_of(settings: &Settings) -> Result<Arc<dyn Spill>, Refusal> {
    let spills = settings.spill.as_ref().ok_or(Refusal::NoSpill)?;
    spills.make().map_err(|error| {
        tracing::debug!(%error, "cannot make a spill file for a pool");
        Refusal::Failed
    })
}

fn outcome_of(refusal: Option<Refusal>) -> Outcome {
    refusal.map_or(Outcome::Done, Outcome::Refused)
}
