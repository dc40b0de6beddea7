//! Pages that are put or got together.
//!
//! Their shards are locked together, for to unlock is to wait until all that was written has gone its way, a page's
//! worth of it: so the next page is begun while the one before is on its way. And the ways to them are walked before
//! the first of them is begun. Alone, a page is a walk from one place in memory to the next, each of which has to be
//! waited for; of a group, the same step of every walk is waited for together. Which lines a step wants can be said from
//! what the one before has brought:
//!
//! ```text
//!  seek    slot; for a get what it will be remembered by, for a put the facts of the frame that it will get
//!  lead    leaf
//!  reach   the facts of its frame; for a get the page, for a put one line of it; for a page that will be displaced its slot
//! ```
//!
//! A processor has some 24 lines on their way; of those that are asked for beyond that it forgets some. So what a put touches last is
//! fetched while the pages before it are copied, which goes past the caches: the leaf of the page that it displaces, what both are
//! remembered by, the facts of those beside it in its queue. To copy a page that is got is to fetch it, so that gets have all at once.
//!
//! The line of a put's page is there for the processor to look up where the page lies. It has to be here well before the page is
//! copied: who stores past the caches waits for a line of the same page that is on its way.
//!
//! Whoever has a group waits for no lock while it has one. So pages whose shards somebody else holds come later, and so do
//! all that follow them there: what happens to one page keeps its order. A page that needs more than what is in its
//! shard goes by itself, when no shard is locked for others: of a pool that is shared, one that is on disk only, one
//! for which there is no frame here (those of its siblings may be in shards that its own group holds), one that needs a block.

use parking_lot::{Mutex, MutexGuard};
use sublet_types::PoolId;

use super::Pages;
use super::arrivals::{Arrivals, TOGETHER_MAX};
use super::desk::Desk;
use super::directory::{Led, Whereabouts};
use super::expected::want_ghost;
use super::frame_source::{Displacing, PutAttempt, Shortage, Siblings, Terms};
use super::holdings::Holdings;
use super::locked_shard::LockedShard;
use super::pools::Pool;
use super::shard::Shard;
use super::shards_with_spare::SHARDS_MAX;
use crate::api::{Get, PageKey, Put};
use crate::arena::{Blank, PageKind, Wanted};
use crate::frames::Key;
use crate::frames::{FrameId, Queue};
use crate::tenants::Tenant;

/// Pages of a group, at the most: a few microseconds for who waits for one of its shards.
const GROUP: usize = TOGETHER_MAX;

/// So many pages before a page is put, the processor is to fetch what it will touch last: a microsecond, nearly.
const AHEAD: usize = 2;

/// How a page of a group may come by a frame: in its own shard only, for the group may hold others.
const TERMS: Terms = Terms {
    displacing: Displacing::IfBound,
    siblings: Siblings::LeftAlone,
};

/// Looks at a shard that somebody else holds, before one sleeps until it is unlocked: some ten microseconds.
const LOOKS: usize = 512;

/// The place of a shard that was not seen.
const UNSEEN: u8 = u8::MAX;

/// What will happen to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageVerb {
    /// It will be asked for.
    Get,
    /// It will be put.
    Put,
}

/// Some pages of a part of a call, by their places in it: a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Places(u32);

impl Places {
    /// Pages of a part, at the most.
    pub(crate) const MAX: usize = u32::BITS as usize;

    fn add(&mut self, n: usize) {
        self.0 |= 1 << n;
    }

    fn strike(&mut self, n: usize) {
        self.0 &= !(1 << n);
    }

    fn first(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// In order.
    fn iter(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let first = self.first()?;
            self.strike(first);
            Some(first)
        })
    }
}

/// The pages of a part of a call that have yet to be put or got.
#[derive(Default)]
pub(crate) struct Left {
    /// They may go with others.
    together: Places,
    /// They go by themselves, before others go on.
    alone: Places,
}

impl Left {
    pub(crate) fn is_empty(&self) -> bool {
        self.together.0 == 0 && self.alone.0 == 0
    }

    /// Those that go by themselves, who are done with now.
    pub(crate) fn take_alone(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.alone).iter()
    }
}

/// How it went with a page in a group.
enum PutOutcome {
    /// It is done.
    Done,
    /// It has to go by itself.
    Alone,
    /// It has to go by itself, and before others.
    First,
}

/// Some pages whose shards are locked.
pub(crate) struct Group<'a> {
    desk: &'a Desk<'a>,
    verb: PageVerb,
    /// Whether what its pages touch is more than the processor's caches have.
    looks_ahead: bool,
    shards: Shards<'a>,
    members: [Option<Member>; GROUP],
}

/// A page that will be put or got.
struct Member {
    /// Its place in the call.
    n: usize,
    id: PoolId,
    pool: Pool,
    verb: PageVerb,
    object: u64,
    key: Key,
    hash: u64,
    /// The place of its shard among those that were seen.
    shard: usize,
    /// Whether it is the first of the group that comes to its shard.
    is_first: bool,
    /// What tells where it is, if anything does.
    led: Option<Led>,
    /// The frame that it probably is in, or will be in.
    frame: Option<FrameId>,
    /// Whether it probably is there.
    is_there: bool,
    /// The page that probably goes for it, with the hash of its object.
    gone: Option<(u64, Key)>,
}

/// Shards that were seen. One that somebody else has is none, and so is one from which a page has to go by itself.
struct Shards<'a> {
    seen: [Option<Held<'a>>; Places::MAX],
    count: usize,
    /// The first that somebody else holds.
    busy: Option<&'a Mutex<Shard>>,
    /// The place of each shard among those that were seen, by its number.
    place_of: [u8; SHARDS_MAX],
}

struct Held<'a> {
    shard: MutexGuard<'a, Shard>,
    /// Whether pages of the group are in it.
    is_wanted: bool,
    /// The frame that the last page seen here will probably get.
    next: Option<FrameId>,
}

impl<'a> Shards<'a> {
    /// Locks a shard, unless somebody else holds it. Says its place.
    fn lock(&mut self, holdings: &'a Holdings, number: usize) -> Option<usize> {
        let known = usize::from(self.place_of[number]);
        if let Some(seen) = self.seen.get(known) {
            return seen.is_some().then_some(known);
        }
        let place = self.count;
        self.place_of[number] = place as u8;
        self.count += 1;
        let shard = &holdings.shards()[number];
        let Some(shard) = shard.try_lock() else {
            self.busy.get_or_insert(shard);
            return None;
        };
        self.seen[place] = Some(Held {
            shard,
            is_wanted: false,
            next: None,
        });
        Some(place)
    }
}

impl<'a> Desk<'a> {
    /// Tells which pages may go with others.
    pub(crate) fn sort(&self, keys: &[PageKey]) -> Left {
        let mut left = Left::default();
        for (n, key) in keys.iter().enumerate() {
            let pool = self.pages.pools.check(key.pool, self.tenant.id);
            match pool.is_some_and(|pool| self.may_go_together(&pool)) {
                true => left.together.add(n),
                false => left.alone.add(n),
            }
        }
        left
    }

    fn may_go_together(&self, pool: &Pool) -> bool {
        pool.owner == self.tenant.id && !pool.flags.shared
    }

    /// Locks the shards of some of the pages that are left, and has what they will touch fetched.
    pub(crate) fn gather(&'a self, verb: PageVerb, keys: &[PageKey], left: &Left) -> Group<'a> {
        let mut group = Group {
            desk: self,
            verb,
            looks_ahead: self.pages.holdings(self.tenant).are_beyond_caches(),
            shards: Shards {
                seen: [const { None }; Places::MAX],
                count: 0,
                busy: None,
                place_of: [UNSEEN; SHARDS_MAX],
            },
            members: [const { None }; GROUP],
        };
        let mut places = left.together.iter();
        let mut joining =
            std::iter::from_fn(|| places.find_map(|n| group.shards.join(self, verb, n, keys[n])));
        for member in &mut group.members {
            *member = joining.next();
        }
        if group.looks_ahead {
            group.walk();
        }
        group
    }
}

impl<'a> Shards<'a> {
    /// A page, if it may go with others.
    fn join(&mut self, desk: &Desk<'a>, verb: PageVerb, n: usize, key: PageKey) -> Option<Member> {
        let (pages, tenant) = (desk.pages, desk.tenant);
        let pool = pages.pools.check(key.pool, tenant.id)?;
        let object = pages.seed.object(pool.base, key.object);
        let holdings = pages.holdings(tenant);
        let shard = self.lock(holdings, holdings.shard_number(object))?;
        let held = self.seen[shard].as_mut()?;
        if !pages.pools.is_alive(key.pool) {
            return None;
        }
        let hash = pages.seed.page_of(object, key.index);
        Some(Member {
            n,
            id: key.pool,
            pool,
            verb,
            object,
            key: Key {
                pool: pool.base,
                object: key.object,
                index: key.index,
            },
            hash,
            shard,
            is_first: !std::mem::replace(&mut held.is_wanted, true),
            led: None,
            frame: None,
            is_there: false,
            gone: None,
        })
    }
}

impl<'a> Group<'a> {
    /// Has the processor fetch what leads to its pages: a hint, which changes nothing.
    fn walk(&mut self) {
        let pages = self.desk.pages;
        let mut wanted = Wanted::new();
        for step in [Member::seek, Member::lead, Member::reach] {
            for member in self.members.iter_mut().flatten() {
                if let Some(held) = &mut self.shards.seen[member.shard] {
                    step(member, pages, held, &mut wanted);
                }
            }
            wanted.fetch();
        }
        if self.verb == PageVerb::Get {
            (0..GROUP).for_each(|nth| self.arrive(nth, &mut wanted));
            wanted.fetch();
        }
    }

    /// Wants what a member's page will touch last.
    fn arrive(&self, nth: usize, wanted: &mut Wanted) {
        if let Some(Some(member)) = self.members.get(nth)
            && let Some(held) = &self.shards.seen[member.shard]
        {
            member.arrive(self.desk.pages, &held.shard, wanted);
        }
    }

    /// Has the processor fetch it, for a put.
    fn expect(&self, nth: usize, wanted: &mut Wanted) {
        if self.looks_ahead && self.verb == PageVerb::Put {
            self.arrive(nth, wanted);
            wanted.fetch();
        }
    }

    /// Puts its pages, and strikes them. Says which page must go by itself before any other goes on, and who needs a block
    /// of which kind for it.
    pub(crate) fn put(
        self,
        left: &mut Left,
        mut fill: impl FnMut(usize, &mut Blank<'_>),
        mut told: impl FnMut(usize, Put),
    ) -> Option<(usize, &'a Tenant, PageKind)> {
        let mut needs = None;
        self.each(left, |n, open, arrivals| {
            match open.put(TERMS, arrivals, |page| fill(n, page)) {
                PutAttempt::Done(put) => {
                    open.count_put(put);
                    told(n, put);
                    PutOutcome::Done
                }
                PutAttempt::Lacks(Shortage::Frame, _) => PutOutcome::Alone,
                PutAttempt::Lacks(Shortage::Block(owner, kind), _) => {
                    needs = Some((n, owner, kind));
                    PutOutcome::First
                }
            }
        });
        needs
    }

    /// Gets its pages, and strikes them.
    pub(crate) fn get(
        self,
        left: &mut Left,
        mut visit: impl FnMut(usize, &[u8]),
        mut told: impl FnMut(usize, Get),
    ) {
        self.each(left, |n, open, _| {
            if open.is_on_disk() {
                return PutOutcome::Alone;
            }
            told(n, open.get(|page| visit(n, page)));
            PutOutcome::Done
        });
    }

    /// Opens one member after the other. From where one goes by itself no other is opened: what comes after it there may
    /// be the same page.
    fn each(
        mut self,
        left: &mut Left,
        mut open_one: impl FnMut(usize, &mut LockedShard<'a>, &mut Arrivals<'a>) -> PutOutcome,
    ) {
        let desk = self.desk;
        if self.members[0].is_none() {
            return self.give_way(left);
        }
        let holdings = desk.pages.holdings(desk.tenant);
        let mut alone = Places::default();
        let mut arrivals = Arrivals::new(desk.pages, desk.pages.holdings(desk.tenant));
        let mut wanted = Wanted::new();
        (0..AHEAD).for_each(|nth| self.expect(nth, &mut wanted));
        for nth in 0..GROUP {
            self.expect(nth + AHEAD, &mut wanted);
            let Some(member) = &self.members[nth] else {
                break;
            };
            let n = member.n;
            let seen = &mut self.shards.seen[member.shard];
            let Some(held) = seen.take() else {
                continue;
            };
            let mut open = LockedShard {
                pages: desk.pages,
                owner: desk.tenant,
                holdings,
                id: Some(member.id),
                pool: member.pool,
                object: member.object,
                key: member.key,
                shard: held.shard,
                now: desk.now,
                luck: desk.luck.wrapping_add(n as u64),
                worker: desk.worker,
            };
            let outcome = open_one(n, &mut open, &mut arrivals);
            left.together.strike(n);
            match outcome {
                PutOutcome::Done => {}
                PutOutcome::Alone => {
                    alone.add(n);
                    arrivals.settle();
                    continue;
                }
                PutOutcome::First => {
                    arrivals.settle();
                    break;
                }
            }
            *seen = Some(Held {
                shard: open.shard,
                is_wanted: true,
                next: None,
            });
        }
        arrivals.settle();
        left.alone.0 |= alone.0;
    }

    /// Where no page could join: has the first go by itself, once nobody else has its shard, or for a while at the most.
    fn give_way(self, left: &mut Left) {
        let busy = self.shards.busy;
        drop(self);
        if let Some(shard) = busy {
            await_unlock(shard);
        }
        if let Some(first) = left.together.first() {
            left.together.strike(first);
            left.alone.add(first);
        }
    }
}

impl Member {
    fn seek(&mut self, pages: &Pages, held: &mut Held<'_>, wanted: &mut Wanted) {
        let shard = &held.shard;
        shard.directory.want_slot(self.object, self.key, wanted);
        match self.verb {
            PageVerb::Get if self.pool.is_exclusive() => {
                want_ghost(shard, self.hash, wanted);
            }
            PageVerb::Put if self.is_first => {
                held.next = shard.next_frame(self.pool.kind());
                self.will_get(pages, held.next, wanted);
            }
            PageVerb::Get | PageVerb::Put => {}
        }
    }

    fn lead(&mut self, pages: &Pages, held: &mut Held<'_>, wanted: &mut Wanted) {
        self.led = held
            .shard
            .directory
            .want_leaf(self.object, self.key, wanted);
        if self.verb == PageVerb::Put && !self.is_first {
            held.next = held.next.and_then(|next| Queue::after(&pages.frames, next));
            self.will_get(pages, held.next, wanted);
        }
    }

    fn reach(&mut self, pages: &Pages, held: &mut Held<'_>, wanted: &mut Wanted) {
        let directory = &held.shard.directory;
        let guess = self.led.and_then(|led| directory.guess_by(led, self.key));
        if let Some(Whereabouts::Here(frame)) = guess {
            self.is_there = true;
            self.will_get(pages, Some(frame), wanted);
        } else {
            self.gone = self.frame.and_then(|frame| pages.page_in(frame));
            if let Some((object, gone)) = self.gone {
                directory.want_slot(object, gone, wanted);
            }
        }
        if let Some(frame) = self.frame {
            match self.streams() {
                true => pages.frames.want_place(frame, wanted),
                false if self.is_there => pages.frames.want_page(frame, wanted),
                false => {}
            }
        }
    }

    fn arrive(&self, pages: &Pages, shard: &Shard, wanted: &mut Wanted) {
        let Some(frame) = self.frame else {
            return;
        };
        if self.streams() {
            want_ghost(shard, self.hash, wanted);
        }
        if !self.stays_in_line() {
            pages.frames.want_neighbours(frame, wanted);
        }
        if let Some((object, gone)) = self.gone {
            shard.directory.want_leaf(object, gone, wanted);
            want_ghost(shard, pages.seed.page_of(object, gone.index), wanted);
        }
    }

    fn will_get(&mut self, pages: &Pages, frame: Option<FrameId>, wanted: &mut Wanted) {
        self.frame = frame;
        let line = frame.map(|frame| pages.frames.line(frame));
        line.into_iter().for_each(|line| wanted.add(line));
    }

    /// Whether its bytes go past the caches.
    fn streams(&self) -> bool {
        self.verb == PageVerb::Put && self.pool.kind() == PageKind::Ephemeral
    }

    /// Whether the page stays where it is in its queue. With some evictions a get moves it all the same.
    fn stays_in_line(&self) -> bool {
        self.verb == PageVerb::Get && self.pool.flags.keeping
    }
}

/// Waits for a while until nobody holds a shard: a group is over before somebody who sleeps could be woken.
fn await_unlock(shard: &Mutex<Shard>) {
    for _ in (0..LOOKS).take_while(|_| shard.is_locked()) {
        std::hint::spin_loop();
    }
}
