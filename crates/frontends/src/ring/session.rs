//! One connection's requests: out of its ring, into a tenancy, and the answers back.

use std::iter::Take;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Drain;

use rustix::time::{ClockId, Timespec, clock_gettime};
use sublet_client::ring::layout::{Completion, Outcome, Submission};
use sublet_client::ring::{
    Bell, DaemonEnd, Fault, Garbage, Get, PageSlot, Put, Refusal, SlotRun, hello,
};
use sublet_store::{Blank, PageKey, Spill};
use sublet_types::{PoolFlags, PoolId, SharedName};

use super::Settings;
use super::map::{Known, Names, Pools, Restored};
use super::metrics::{Figures, Operation, Tally};
use super::pages::{Pages, page_key};
use super::passing::read_page;
use super::wire::{self, PageRun, Request};

/// What one turn of a connection may cost before others get theirs, but for the batch that exceeds it: an entry, and each
/// of its pages. What may take its time costs a whole turn.
const TURN_COST_MAX: u32 = 256;

/// What a piece of a removal costs.
const REMOVAL_COST: u32 = TURN_COST_MAX / 4;

/// How long a turn may take, but for the batch that exceeds it: a get may have to wait for the disk that its page went to.
const TURN_TIME_MAX: Duration = Duration::from_millis(4);

/// Pages after which a batch ends: enough for the store to go through them together.
const BATCH_PAGES: u32 = 32;

/// Requests of a batch, at the most.
const BATCH_MAX: usize = BATCH_PAGES as usize;

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

/// What a turn has cost.
struct Spent {
    cost: u32,
    since: Timespec,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent {
            cost: 0,
            since: clock_gettime(ClockId::MonotonicCoarse),
        }
    }
}

impl Spent {
    fn is_all(&self) -> bool {
        let time = clock_gettime(ClockId::MonotonicCoarse) - self.since;
        self.cost >= TURN_COST_MAX
            || Duration::try_from(time).is_ok_and(|time| time > TURN_TIME_MAX)
    }
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

/// The pages of requests of one verb that came one after the other, and what became of them.
#[derive(Default)]
struct Together {
    keys: Vec<PageKey>,
    slots: Vec<PageSlot>,
    puts: Vec<Put>,
    gets: Vec<Get>,
}

impl Together {
    /// Those of requests whose pools are the client's.
    fn gather(&mut self, requests: &[Asked], pools: &Pools) {
        self.keys.clear();
        self.slots.clear();
        for (_, request) in requests {
            if let Ok(Paged::Put(run, slots) | Paged::Get(run, slots)) = request
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
    pools: Pools,
    /// What was asked last, while the pages that it forgets are removed: that is answered before anything else.
    removing: Option<(Submission, R)>,
    /// Room for a batch.
    batch: Vec<Asked>,
    together: Together,
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

impl<R> Session<R> {
    pub(super) fn new(end: DaemonEnd) -> Session<R> {
        Session {
            end,
            pools: Pools::default(),
            removing: None,
            batch: Vec::with_capacity(BATCH_MAX),
            together: Together::default(),
            tally: Tally::default(),
        }
    }

    pub(super) fn end(&self) -> &DaemonEnd {
        &self.end
    }

    /// Answers what has been asked, for at most a turn's cost.
    pub(super) fn turn<P: Pages<Removal = R>, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
    ) -> Result<Turn, Garbage> {
        let mut spent = Spent::default();
        let turned = loop {
            if !self.remove(place, &mut spent) {
                break Ok(Turn::Again);
            }
            let paused = place.pages.pinned(|| self.run(place, &mut spent));
            match paused {
                Ok(Pause::Turn(turn)) => break Ok(turn),
                Ok(Pause::Slow(submission, slow)) => {
                    spent.cost += TURN_COST_MAX;
                    self.take_time(place, submission, slow);
                }
                Err(garbage) => break Err(garbage),
            }
        };
        // Before the last answers are seen: who has his answer finds it counted.
        place.figures.count(std::mem::take(&mut self.tally));
        self.publish(place);
        turned
    }

    /// Ends all pools that end with the connection: those without a name. Says what is to be removed.
    pub(super) fn close(&mut self, pages: &impl Pages<Removal = R>, names: &Names) -> Vec<R> {
        let begun = self.removing.take().map(|(_, removal)| removal);
        let ended = self.pools.strike_all().into_iter();
        let left = ended.filter_map(|known| match known.shared {
            Some(name) => {
                names.part(name);
                None
            }
            None => pages.end_pool(known.pool),
        });
        begun.into_iter().chain(left).collect()
    }

    /// Goes on removing what was asked for last, and answers when that is done. False if the turn is over before.
    fn remove<P: Pages<Removal = R>, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        spent: &mut Spent,
    ) -> bool {
        let Some((submission, mut removal)) = self.removing.take() else {
            return true;
        };
        while place.pages.remove_some(&mut removal) {
            spent.cost += REMOVAL_COST;
            if spent.is_all() {
                self.removing = Some((submission, removal));
                return false;
            }
        }
        self.complete(place, &wire::completion(&submission, Outcome::Done));
        true
    }

    /// Batch by batch, until something takes longer or the turn is over.
    fn run<P: Pages, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        spent: &mut Spent,
    ) -> Result<Pause, Garbage> {
        let mut batch = std::mem::take(&mut self.batch);
        let paused = loop {
            if spent.is_all() {
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
            for requests in batch.chunk_by(goes_with) {
                self.answer(place, requests);
            }
            spent.cost += batch.iter().map(|asked| 1 + pages_of(asked)).sum::<u32>();
            if let Some((submission, slow)) = slow {
                spent.cost += 1;
                break Ok(Pause::Slow(submission, slow));
            }
        };
        self.batch = batch;
        paused
    }

    /// Takes submissions that are answered together, up to one that may take its time: that is answered last.
    fn take_batch(
        &mut self,
        batch: &mut Vec<Asked>,
    ) -> Result<Option<(Submission, Slow)>, Garbage> {
        let mut pages = 0;
        while pages < BATCH_PAGES && batch.len() < BATCH_MAX {
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
            let asked = (submission, asked);
            pages += pages_of(&asked);
            batch.push(asked);
        }
        Ok(None)
    }

    /// Answers requests that go together.
    fn answer<P: Pages, S: AsFd>(&mut self, place: &Place<'_, P, S>, requests: &[Asked]) {
        let Some((submission, request)) = requests.first() else {
            return;
        };
        let completion = match request {
            Ok(Paged::Put(..)) => return self.put(place, requests),
            Ok(Paged::Get(..)) => return self.get(place, requests),
            Ok(Paged::Flush(run)) => self.flush(place, submission, *run),
            Err(fault) => wire::completion(submission, Outcome::Faulty(*fault)),
        };
        self.complete(place, &completion);
    }

    fn put<P: Pages, S: AsFd>(&mut self, place: &Place<'_, P, S>, requests: &[Asked]) {
        let mut together = std::mem::take(&mut self.together);
        together.gather(requests, &self.pools);
        let Together {
            keys, slots, puts, ..
        } = &mut together;
        let fill = |n: usize, page: &mut Blank<'_>| read_page(&self.end, slots[n], page);
        puts.resize(keys.len(), Put::Refused(Refusal::Failed));
        place.pages.put_pages(keys, fill, |n, put| puts[n] = put);
        self.tell(place, requests, puts, |session, submission, puts| {
            session.tell_puts(submission, puts)
        });
        self.together = together;
    }

    /// Answers requests, each with what became of its pages.
    fn tell<P, S: AsFd, T>(
        &mut self,
        place: &Place<'_, P, S>,
        requests: &[Asked],
        became: &mut Vec<T>,
        said: impl Fn(&mut Session<R>, &Submission, Take<&mut Drain<'_, T>>) -> Completion,
    ) {
        let mut became = became.drain(..);
        for (submission, request) in requests {
            let Ok(Paged::Put(run, _) | Paged::Get(run, _)) = request else {
                continue;
            };
            let completion = match self.pools.check(run.pool()) {
                Ok(()) => said(self, submission, became.by_ref().take(run.count() as usize)),
                Err(fault) => wire::completion(submission, Outcome::Faulty(fault)),
            };
            self.complete(place, &completion);
        }
    }

    fn tell_puts(
        &mut self,
        submission: &Submission,
        puts: impl Iterator<Item = Put>,
    ) -> Completion {
        let (mut stored, mut replaced, mut refused, mut refusal) = (0u64, 0u64, 0, None);
        for (n, put) in puts.enumerate() {
            match put {
                Put::Stored => stored |= 1 << n,
                Put::Replaced => {
                    stored |= 1 << n;
                    replaced |= 1 << n;
                }
                Put::Refused(why) => {
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

    fn get<P: Pages, S: AsFd>(&mut self, place: &Place<'_, P, S>, requests: &[Asked]) {
        let mut together = std::mem::take(&mut self.together);
        together.gather(requests, &self.pools);
        let Together {
            keys, slots, gets, ..
        } = &mut together;
        let visit = |n: usize, page: &[u8]| self.end.write_page(slots[n], page);
        gets.resize(keys.len(), Get::Refused(Refusal::Failed));
        place.pages.get_pages(keys, visit, |n, got| gets[n] = got);
        self.tell(place, requests, gets, |session, submission, gets| {
            session.tell_gets(submission, gets)
        });
        self.together = together;
    }

    fn tell_gets(
        &mut self,
        submission: &Submission,
        gets: impl Iterator<Item = Get>,
    ) -> Completion {
        let (mut hits, mut missed, mut refused, mut refusal) = (0u64, 0, 0, None);
        for (n, got) in gets.enumerate() {
            match got {
                Get::Hit => hits |= 1 << n,
                Get::Miss => missed += 1,
                Get::Refused(why) => {
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

    /// Does what may take its time, or begins to.
    fn take_time<P: Pages<Removal = R>, S: AsFd>(
        &mut self,
        place: &Place<'_, P, S>,
        submission: Submission,
        slow: Slow,
    ) {
        let pages = place.pages;
        let begun = match slow {
            Slow::CreatePool(flags, shared) => {
                let completion = match self.create_pool(place, flags, shared) {
                    Ok(pool) => Completion {
                        first: sublet_client::ring::layout::handle_of(pool),
                        ..wire::completion(&submission, Outcome::Done)
                    },
                    Err(refusal) => wire::completion(&submission, Outcome::Refused(refusal)),
                };
                return self.complete(place, &completion);
            }
            Slow::FlushObject(pool, object) => self
                .pools
                .check(pool)
                .map(|()| pages.begin_flush_object(pool, object)),
            Slow::DestroyPool(pool) => self.pools.strike(pool).map(|known| end(place, known)),
        };
        match begun {
            Ok(Some(removal)) => self.removing = Some((submission, removal)),
            Ok(None) => self.complete(place, &wire::completion(&submission, Outcome::Done)),
            Err(fault) => self.complete(
                place,
                &wire::completion(&submission, Outcome::Faulty(fault)),
            ),
        }
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

/// Whether two requests, one after the other, are answered together.
fn goes_with((_, one): &Asked, (_, next): &Asked) -> bool {
    matches!(
        (one, next),
        (Ok(Paged::Put(..)), Ok(Paged::Put(..))) | (Ok(Paged::Get(..)), Ok(Paged::Get(..)))
    )
}

/// How many pages a request is about.
fn pages_of((_, request): &Asked) -> u32 {
    match request {
        Ok(Paged::Put(run, _) | Paged::Get(run, _) | Paged::Flush(run)) => run.count(),
        Err(_) => 0,
    }
}

fn end<P: Pages, S>(place: &Place<'_, P, S>, known: Known) -> Option<P::Removal> {
    let end = || place.pages.end_pool(known.pool);
    match known.shared {
        Some(name) => place.names.leave(name, end),
        None => end(),
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
