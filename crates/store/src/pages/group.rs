//! Groups: pages that are put or got together.
//!
//! Their shards are locked together. To unlock a shard, the thread must wait until all its writes, a page's worth, have
//! reached memory. So it begins the next page while the one before is still on its way.
//!
//! The look-ups of all pages run ahead of the first page. A single page is a walk from one place in memory to the next,
//! and each step has to wait. In a group, the same step of every walk waits together. What one step has brought tells
//! which lines the next step needs:
//!
//! - *seek*: the slot. For a get, also what the page will be remembered by. For a put, also the record of the frame
//!   that it will get.
//! - *lead*: the leaf.
//! - *reach*: the record of its frame. For a get, also the page. For a put, also one line of the page. For a page that
//!   will be displaced, its slot.
//!
//! A processor has some 24 lines on their way and drops some of the requests beyond that. So what a put touches last is
//! fetched while the pages before it are copied, because such copies bypass the caches. This is the leaf of the page
//! that it displaces, what both pages are remembered by, and the records of the neighbours in its queue. To copy a page
//! that is got is to fetch it, so gets fetch everything at once.
//!
//! The one line of a put's page is fetched so that the processor looks up the page's address. It has to arrive well
//! before the page is copied. A store that bypasses the caches waits for a line of the same page that is on its way.
//!
//! A thread that has a group waits for no lock. So pages whose shards another thread holds come later, and so do all
//! that follow them there: what happens to one page keeps its order.
//!
//! A page that needs more than what is in its shard goes by itself, when no shard is locked for others. Such pages are:
//!
//! - a page of a shared pool,
//! - a page that is on disk only,
//! - a page for which there is no frame here (those of its siblings may be in shards that its own group holds),
//! - a page that needs a block.

use parking_lot::{Mutex, MutexGuard};
use sublet_types::PoolId;

use super::PageStore;
use super::arrivals::{Arrivals, TOGETHER_MAX};
use super::directory::{SlotTarget, Whereabouts};
use super::frame_source::{Displacement, FrameSearch, PutAttempt, Shortage, SiblingSearch};
use super::locked_shard::LockedShard;
use super::page_access::PageAccess;
use super::pools::Pool;
use super::shard::Shard;
use super::shards_with_spare::SHARDS_MAX;
use super::tenant_pages::TenantPages;
use super::victim_prefetch::batch_ghost;
use crate::api::{GetOutcome, PageKey, PutOutcome};
use crate::arena::{PageKind, PrefetchBatch, UnwrittenPage};
use crate::frames::StoredKey;
use crate::frames::{FrameId, FrameQueue};
use crate::tenants::Tenant;

/// The most pages of a group. They take a few microseconds for a thread that waits for one of their shards.
const GROUP: usize = TOGETHER_MAX;

/// The processor fetches what a page touches last this many pages before it is put: almost a microsecond.
const AHEAD: usize = 2;

/// How a page of a group may get a frame: in its own shard only, because the group may hold others.
const GROUP_SEARCH: FrameSearch = FrameSearch {
    displacing: Displacement::IfBound,
    siblings: SiblingSearch::Skip,
};

/// Looks at a shard that another thread holds before this thread sleeps until it is unlocked: some ten microseconds.
const SPINS_MAX: usize = 512;

/// The index of a shard that was not seen.
const UNSEEN: u8 = u8::MAX;

/// The operation on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageVerb {
    /// A get.
    Get,
    /// A put.
    Put,
}

/// Some pages of a part of a call, one bit for each index.
#[derive(Clone, Copy, Default)]
pub(crate) struct PageMask(u32);

impl PageMask {
    /// The most pages of a part.
    pub(crate) const MAX: usize = u32::BITS as usize;

    fn add(&mut self, n: usize) {
        self.0 |= 1 << n;
    }

    fn remove(&mut self, n: usize) {
        self.0 &= !(1 << n);
    }

    fn first(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// In order.
    fn iter(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let first = self.first()?;
            self.remove(first);
            Some(first)
        })
    }
}

/// The pages of a part of a call that have yet to be put or got.
#[derive(Default)]
pub(crate) struct RemainingPages {
    /// Pages that may go with others.
    together: PageMask,
    /// Pages that go by themselves, before the others go on.
    alone: PageMask,
}

impl RemainingPages {
    pub(crate) fn is_empty(&self) -> bool {
        self.together.0 == 0 && self.alone.0 == 0
    }

    /// Returns the pages that go by themselves and clears them.
    pub(crate) fn take_alone(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.alone).iter()
    }
}

/// The outcome of a page in a group.
enum MemberOutcome {
    /// It is done.
    Done,
    /// It has to go by itself.
    Alone,
    /// It has to go by itself, before the others.
    First,
}

/// Some pages whose shards are locked.
pub(crate) struct PageGroup<'a> {
    access: &'a PageAccess<'a>,
    verb: PageVerb,
    /// Whether what its pages touch exceeds the processor's caches.
    looks_ahead: bool,
    shards: GroupShards<'a>,
    members: [Option<GroupMember>; GROUP],
}

/// A page of a group.
struct GroupMember {
    /// Its index in the call.
    n: usize,
    id: PoolId,
    pool: Pool,
    verb: PageVerb,
    object: u64,
    key: StoredKey,
    hash: u64,
    /// The index of its shard among those that were seen.
    shard: usize,
    /// Whether it is the first of the group in its shard.
    is_first: bool,
    /// What the directory slot leads to, if anything.
    target: Option<SlotTarget>,
    /// The frame that it probably is in, or will get.
    frame: Option<FrameId>,
    /// Whether it probably is there.
    is_there: bool,
    /// The page that will probably be displaced for it, with the hash of its object.
    gone: Option<(u64, StoredKey)>,
}

/// The shards that were seen. The entry is `None` for a shard that another thread holds, and for one from which a page
/// has to go by itself.
struct GroupShards<'a> {
    seen: [Option<GroupShard<'a>>; PageMask::MAX],
    count: usize,
    /// The first shard that another thread holds.
    busy: Option<&'a Mutex<Shard>>,
    /// The index of each shard among those that were seen, by shard number.
    place_of: [u8; SHARDS_MAX],
}

struct GroupShard<'a> {
    shard: MutexGuard<'a, Shard>,
    /// Whether pages of the group are in it.
    is_wanted: bool,
    /// The frame that the last page seen in this shard will probably get.
    next: Option<FrameId>,
}

impl<'a> GroupShards<'a> {
    /// Locks a shard, unless another thread holds it. Returns its index.
    fn lock(&mut self, tenant_pages: &'a TenantPages, number: usize) -> Option<usize> {
        let known = usize::from(self.place_of[number]);
        if let Some(seen) = self.seen.get(known) {
            return seen.is_some().then_some(known);
        }
        let place = self.count;
        self.place_of[number] = place as u8;
        self.count += 1;
        let shard = &tenant_pages.shards()[number];
        let Some(shard) = shard.try_lock() else {
            self.busy.get_or_insert(shard);
            return None;
        };
        self.seen[place] = Some(GroupShard {
            shard,
            is_wanted: false,
            next: None,
        });
        Some(place)
    }
}

impl<'a> PageAccess<'a> {
    /// Splits the pages into those that may go with others and those that may not.
    pub(crate) fn partition(&self, keys: &[PageKey]) -> RemainingPages {
        let mut left = RemainingPages::default();
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

    /// Locks the shards of some of the remaining pages and prefetches what they will touch.
    pub(crate) fn lock_group(
        &'a self,
        verb: PageVerb,
        keys: &[PageKey],
        left: &RemainingPages,
    ) -> PageGroup<'a> {
        let mut group = PageGroup {
            access: self,
            verb,
            looks_ahead: self.pages.tenant_pages(self.tenant).are_beyond_caches(),
            shards: GroupShards {
                seen: [const { None }; PageMask::MAX],
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
            group.prefetch_paths();
        }
        group
    }
}

impl<'a> GroupShards<'a> {
    /// Adds a page to the group, if it may go with others.
    fn join(
        &mut self,
        access: &PageAccess<'a>,
        verb: PageVerb,
        n: usize,
        key: PageKey,
    ) -> Option<GroupMember> {
        let (pages, tenant) = (access.pages, access.tenant);
        let pool = pages.pools.check(key.pool, tenant.id)?;
        let object = pages.seed.object(pool.base, key.object);
        let tenant_pages = pages.tenant_pages(tenant);
        let shard = self.lock(tenant_pages, tenant_pages.shard_number(object))?;
        let held = self.seen[shard].as_mut()?;
        if !pages.pools.is_alive(key.pool) {
            return None;
        }
        let hash = pages.seed.page_of(object, key.index);
        Some(GroupMember {
            n,
            id: key.pool,
            pool,
            verb,
            object,
            key: StoredKey {
                pool: pool.base,
                object: key.object,
                index: key.index,
            },
            hash,
            shard,
            is_first: !std::mem::replace(&mut held.is_wanted, true),
            target: None,
            frame: None,
            is_there: false,
            gone: None,
        })
    }
}

impl<'a> PageGroup<'a> {
    /// Prefetches what leads to the group's pages. This is a hint and changes nothing.
    fn prefetch_paths(&mut self) {
        let pages = self.access.pages;
        let mut batch = PrefetchBatch::new();
        for step in [
            GroupMember::batch_slot_lines,
            GroupMember::batch_leaf_lines,
            GroupMember::batch_frame_lines,
        ] {
            for member in self.members.iter_mut().flatten() {
                if let Some(held) = &mut self.shards.seen[member.shard] {
                    step(member, pages, held, &mut batch);
                }
            }
            batch.fetch();
        }
        if self.verb == PageVerb::Get {
            (0..GROUP).for_each(|nth| self.batch_last_lines(nth, &mut batch));
            batch.fetch();
        }
    }

    /// Adds to the batch what a member's page will touch last.
    fn batch_last_lines(&self, nth: usize, batch: &mut PrefetchBatch) {
        if let Some(Some(member)) = self.members.get(nth)
            && let Some(held) = &self.shards.seen[member.shard]
        {
            member.batch_last_lines(self.access.pages, &held.shard, batch);
        }
    }

    /// Prefetches what a put will touch last.
    fn prefetch_last_lines(&self, nth: usize, batch: &mut PrefetchBatch) {
        if self.looks_ahead && self.verb == PageVerb::Put {
            self.batch_last_lines(nth, batch);
            batch.fetch();
        }
    }

    /// Puts the group's pages and removes them from the remaining ones. Returns the page that must go by itself before
    /// any other, with the tenant and kind of the block that it needs.
    pub(crate) fn put(
        self,
        left: &mut RemainingPages,
        mut fill: impl FnMut(usize, &mut UnwrittenPage<'_>),
        mut report: impl FnMut(usize, PutOutcome),
    ) -> Option<(usize, &'a Tenant, PageKind)> {
        let mut needs = None;
        self.for_each_member(left, |n, open, arrivals| {
            match open.put(GROUP_SEARCH, arrivals, |page| fill(n, page)) {
                PutAttempt::Done(put) => {
                    open.count_put(put);
                    report(n, put);
                    MemberOutcome::Done
                }
                PutAttempt::Lacks(Shortage::Frame, _) => MemberOutcome::Alone,
                PutAttempt::Lacks(Shortage::Block(owner, kind), _) => {
                    needs = Some((n, owner, kind));
                    MemberOutcome::First
                }
            }
        });
        needs
    }

    /// Gets the group's pages and removes them from the remaining ones.
    pub(crate) fn get(
        self,
        left: &mut RemainingPages,
        mut visit: impl FnMut(usize, &[u8]),
        mut report: impl FnMut(usize, GetOutcome),
    ) {
        self.for_each_member(left, |n, open, _| {
            if open.is_on_disk() {
                return MemberOutcome::Alone;
            }
            report(n, open.get(|page| visit(n, page)));
            MemberOutcome::Done
        });
    }

    /// Opens one member after the other. After one that must go by itself, it opens no other of that shard, because a
    /// later one may be the same page.
    fn for_each_member(
        mut self,
        left: &mut RemainingPages,
        mut open_one: impl FnMut(usize, &mut LockedShard<'a>, &mut Arrivals<'a>) -> MemberOutcome,
    ) {
        let access = self.access;
        if self.members[0].is_none() {
            return self.wait_or_isolate(left);
        }
        let tenant_pages = access.pages.tenant_pages(access.tenant);
        let mut alone = PageMask::default();
        let mut arrivals = Arrivals::new(access.pages, access.pages.tenant_pages(access.tenant));
        let mut batch = PrefetchBatch::new();
        (0..AHEAD).for_each(|nth| self.prefetch_last_lines(nth, &mut batch));
        for nth in 0..GROUP {
            self.prefetch_last_lines(nth + AHEAD, &mut batch);
            let Some(member) = &self.members[nth] else {
                break;
            };
            let n = member.n;
            let seen = &mut self.shards.seen[member.shard];
            let Some(held) = seen.take() else {
                continue;
            };
            let mut open = LockedShard {
                pages: access.pages,
                owner: access.tenant,
                tenant_pages,
                id: Some(member.id),
                pool: member.pool,
                object: member.object,
                key: member.key,
                shard: held.shard,
                now: access.now,
                random: access.random.wrapping_add(n as u64),
                pattern: access.pattern,
                worker: access.worker,
            };
            let outcome = open_one(n, &mut open, &mut arrivals);
            left.together.remove(n);
            match outcome {
                MemberOutcome::Done => {}
                MemberOutcome::Alone => {
                    alone.add(n);
                    arrivals.publish();
                    continue;
                }
                MemberOutcome::First => {
                    arrivals.publish();
                    break;
                }
            }
            *seen = Some(GroupShard {
                shard: open.shard,
                is_wanted: true,
                next: None,
            });
        }
        arrivals.publish();
        left.alone.0 |= alone.0;
    }

    /// If no page could join, lets the first go by itself once its shard is unlocked, or after a bounded wait.
    fn wait_or_isolate(self, left: &mut RemainingPages) {
        let busy = self.shards.busy;
        drop(self);
        if let Some(shard) = busy {
            await_unlock(shard);
        }
        if let Some(first) = left.together.first() {
            left.together.remove(first);
            left.alone.add(first);
        }
    }
}

impl GroupMember {
    fn batch_slot_lines(
        &mut self,
        pages: &PageStore,
        held: &mut GroupShard<'_>,
        batch: &mut PrefetchBatch,
    ) {
        let shard = &held.shard;
        shard.directory.batch_slot(self.object, self.key, batch);
        match self.verb {
            PageVerb::Get if self.pool.is_exclusive() => {
                batch_ghost(shard, self.hash, batch);
            }
            PageVerb::Put if self.is_first => {
                held.next = shard.next_frame(self.pool.kind());
                self.will_get(pages, held.next, batch);
            }
            PageVerb::Get | PageVerb::Put => {}
        }
    }

    fn batch_leaf_lines(
        &mut self,
        pages: &PageStore,
        held: &mut GroupShard<'_>,
        batch: &mut PrefetchBatch,
    ) {
        self.target = held
            .shard
            .directory
            .batch_leaf(self.object, self.key, batch);
        if self.verb == PageVerb::Put && !self.is_first {
            held.next = held
                .next
                .and_then(|next| FrameQueue::after(&pages.frames, next));
            self.will_get(pages, held.next, batch);
        }
    }

    fn batch_frame_lines(
        &mut self,
        pages: &PageStore,
        held: &mut GroupShard<'_>,
        batch: &mut PrefetchBatch,
    ) {
        let directory = &held.shard.directory;
        let guess = self
            .target
            .and_then(|target| directory.guess_by(target, self.key));
        if let Some(Whereabouts::Here(frame)) = guess {
            self.is_there = true;
            self.will_get(pages, Some(frame), batch);
        } else {
            self.gone = self.frame.and_then(|frame| pages.page_in(frame));
            if let Some((object, gone)) = self.gone {
                directory.batch_slot(object, gone, batch);
            }
        }
        if let Some(frame) = self.frame {
            match self.streams() {
                true => pages.frames.batch_page_start(frame, batch),
                false if self.is_there => pages.frames.batch_page(frame, batch),
                false => {}
            }
        }
    }

    fn batch_last_lines(&self, pages: &PageStore, shard: &Shard, batch: &mut PrefetchBatch) {
        let Some(frame) = self.frame else {
            return;
        };
        if self.streams() {
            batch_ghost(shard, self.hash, batch);
        }
        if !self.stays_in_line() {
            pages.frames.batch_neighbours(frame, batch);
        }
        if let Some((object, gone)) = self.gone {
            shard.directory.batch_leaf(object, gone, batch);
            batch_ghost(shard, pages.seed.page_of(object, gone.index), batch);
        }
    }

    fn will_get(&mut self, pages: &PageStore, frame: Option<FrameId>, batch: &mut PrefetchBatch) {
        self.frame = frame;
        let line = frame.map(|frame| pages.frames.line(frame));
        line.into_iter().for_each(|line| batch.add(line));
    }

    /// Returns whether its bytes bypass the caches.
    fn streams(&self) -> bool {
        self.verb == PageVerb::Put && self.pool.kind() == PageKind::Ephemeral
    }

    /// Returns whether the page keeps its place in its queue. With some evictions a get moves it all the same.
    fn stays_in_line(&self) -> bool {
        self.verb == PageVerb::Get && self.pool.flags.keeping
    }
}

/// Waits, for a bounded time, until nobody holds a shard. A group is over before a sleeping thread could be woken.
fn await_unlock(shard: &Mutex<Shard>) {
    for _ in (0..SPINS_MAX).take_while(|_| shard.is_locked()) {
        std::hint::spin_loop();
    }
}
