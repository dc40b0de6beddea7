//! The tenants: how many blocks each owns, and which must give way (Mortar §5.2).

use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use sublet_types::{Bytes, GiveWayOrder, TenantId, TenantName, TenantSettings, Weight};

use crate::api::{TENANTS_MAX, TenantError};
use crate::tails::Tails;

/// All tenants, by number.
pub(crate) struct Tenants {
    places: Box<[OnceLock<Tenant>]>,
    count: AtomicUsize,
    /// Held while a tenant is added. The slot that is reused next.
    next_again: Mutex<usize>,
    /// Held while a block of persistent pages is opened, because such blocks count against all floors.
    pub(crate) pinning: Mutex<()>,
    block_bytes: usize,
}

/// One tenant and what it holds.
pub(crate) struct Tenant {
    pub(crate) id: TenantId,
    name: RwLock<TenantName>,
    weight: AtomicU32,
    /// In bytes; 0 for none.
    floor: AtomicU64,
    /// In bytes; `u64::MAX` for none.
    ceiling: AtomicU64,
    /// What the policy allows it, in bytes; `u64::MAX` for no bound.
    target: AtomicU64,
    /// Blocks it owns.
    held: AtomicU32,
    /// Blocks of lenders that its pages are in. They count against its target, too.
    far_held: AtomicU32,
    /// Of the blocks it owns, those that cannot go for a put because persistent pages are in them.
    pinned: AtomicU32,
    /// Of these, blocks that it is about to give to others.
    reserved: AtomicU32,
    /// Blocks of the arena that ceiling, target and floor allow it. Every set reads this, so it is computed when one of them
    /// changes.
    allowed: AtomicU32,
    /// Blocks that its floor takes, computed likewise.
    floored: AtomicU32,
    /// Held while a bound changes.
    changing: Mutex<()>,
    block_bytes: usize,
    /// It was removed, and what it still holds goes. Then another tenant may get its slot.
    is_gone: AtomicBool,
    /// The age of what goes next.
    pub(crate) tails: Tails,
    /// Blocks that it gave for others' puts, and blocks that it got from others for its own, since the start.
    gave: AtomicU64,
    got: AtomicU64,
    /// What it keeps in any case if all memory is one pool, in bytes. `u64::MAX` if it is not.
    guard: AtomicU64,
    /// Whether it gives what it has beyond that before all other tenants.
    gives_first: AtomicBool,
}

impl Tenants {
    /// An empty table. Memory is handed out in blocks of that size.
    pub(crate) fn new(block_bytes: usize) -> Tenants {
        Tenants {
            block_bytes,
            places: (0..TENANTS_MAX).map(|_| OnceLock::new()).collect(),
            count: AtomicUsize::new(0),
            next_again: Mutex::new(0),
            pinning: Mutex::new(()),
        }
    }

    pub(crate) fn add(&self, settings: TenantSettings) -> Result<TenantId, TenantError> {
        check(&settings)?;
        let mut next_again = self.next_again.lock();
        let same = self.iter().find(|tenant| tenant.is_named(&settings.name));
        if let Some(tenant) = same {
            return match tenant.is_gone() {
                true => Ok(tenant.reuse(&settings)),
                false => Err(TenantError::Exists),
            };
        }
        let place = self.count.load(Ordering::Acquire);
        let Some(free) = self.places.get(place) else {
            return self.reuse_place(&settings, &mut next_again);
        };
        let id = TenantId(place as u16);
        free.get_or_init(|| Tenant::new(id, settings, self.block_bytes));
        self.count.store(place + 1, Ordering::Release);
        Ok(id)
    }

    /// Gives a tenant the slot of a removed tenant that holds nothing any more. Slots are reused in turn, so that each
    /// stays empty as long as it can.
    fn reuse_place(
        &self,
        settings: &TenantSettings,
        next: &mut usize,
    ) -> Result<TenantId, TenantError> {
        let in_turn = (0..TENANTS_MAX).map(|n| (*next + n) % TENANTS_MAX);
        let is_empty = |place: &usize| {
            let tenant = self.places[*place].get();
            tenant.is_some_and(|tenant| tenant.is_gone() && tenant.held() == 0)
        };
        let place = in_turn.into_iter().find(is_empty);
        let place = place.ok_or(TenantError::TooMany(TENANTS_MAX))?;
        *next = place + 1;
        let tenant = self.places[place].get();
        tenant
            .map(|tenant| tenant.reuse(settings))
            .ok_or(TenantError::Unknown)
    }

    pub(crate) fn get(&self, id: TenantId) -> Option<&Tenant> {
        self.places.get(id.0 as usize)?.get()
    }

    pub(crate) fn by_name(&self, name: &TenantName) -> Option<&Tenant> {
        self.present().find(|tenant| tenant.is_named(name))
    }

    /// The tenants that were not removed.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Tenant> {
        self.iter().filter(|tenant| !tenant.is_gone())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tenant> {
        self.places[..self.len()].iter().filter_map(OnceLock::get)
    }

    /// The number of tenants that exist or existed: the most that [`iter`](Tenants::iter) yields.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns whether there was never more than one tenant. Then no other has anything to give.
    pub(crate) fn are_one(&self) -> bool {
        self.len() <= 1
    }

    /// The sum of all weights.
    pub(crate) fn weights(&self) -> u64 {
        let present = self.present();
        present.map(|tenant| u64::from(tenant.weight().0)).sum()
    }

    /// How many of these blocks each tenant gives back to the host. The tenant with the largest fairness above its
    /// floor gives next, again and again. If all are at their floors, the one with the largest fairness gives, because
    /// the host's need comes first.
    pub(crate) fn give_back(&self, blocks: u32) -> Vec<(&Tenant, u32)> {
        let givers = self.iter().map(GiveBackRank::new);
        let mut givers: BinaryHeap<GiveBackRank<'_>> =
            givers.filter(|giver| giver.left > 0).collect();
        for _ in 0..blocks {
            // An entry that changes in place moves to its new place when it is dropped.
            match givers.peek_mut() {
                Some(mut giver) if giver.left > 0 => giver.left -= 1,
                _ => break,
            }
        }
        let quotas = givers
            .into_iter()
            .map(|giver| (giver.tenant, giver.held - giver.left));
        let mut quotas: Vec<_> = quotas.filter(|(_, quota)| *quota > 0).collect();
        quotas.sort_unstable_by_key(|(tenant, _)| tenant.id);
        quotas
    }
}

/// A tenant that gives blocks back, ordered by which tenant gives the next one.
struct GiveBackRank<'a> {
    tenant: &'a Tenant,
    held: u32,
    left: u32,
    floor_blocks: u32,
    weight: f64,
}

impl GiveBackRank<'_> {
    fn new(tenant: &Tenant) -> GiveBackRank<'_> {
        let held = tenant.held();
        GiveBackRank {
            tenant,
            held,
            left: held,
            floor_blocks: tenant.floor_blocks(),
            weight: f64::from(tenant.weight().0),
        }
    }
}

impl Ord for GiveBackRank<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let has_some = |giver: &Self| giver.left > 0;
        let is_above = |giver: &Self| giver.left > giver.floor_blocks;
        let fairness = |giver: &Self| f64::from(giver.left) / giver.weight;
        let by_floor = has_some(self)
            .cmp(&has_some(other))
            .then(is_above(self).cmp(&is_above(other)));
        by_floor
            .then(fairness(self).total_cmp(&fairness(other)))
            .then(self.tenant.id.cmp(&other.tenant.id))
    }
}

impl PartialOrd for GiveBackRank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for GiveBackRank<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for GiveBackRank<'_> {}

impl Tenant {
    fn new(id: TenantId, settings: TenantSettings, block_bytes: usize) -> Tenant {
        let tenant = Tenant {
            id,
            name: RwLock::new(settings.name.clone()),
            weight: AtomicU32::new(0),
            floor: AtomicU64::new(0),
            ceiling: AtomicU64::new(0),
            target: AtomicU64::new(u64::MAX),
            held: AtomicU32::new(0),
            far_held: AtomicU32::new(0),
            pinned: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            allowed: AtomicU32::new(0),
            floored: AtomicU32::new(0),
            changing: Mutex::new(()),
            block_bytes,
            is_gone: AtomicBool::new(false),
            tails: Tails::default(),
            gave: AtomicU64::new(0),
            got: AtomicU64::new(0),
            guard: AtomicU64::new(u64::MAX),
            gives_first: AtomicBool::new(false),
        };
        tenant.grant(&settings);
        tenant
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Removes the tenant: its name no longer finds it, and it may hold nothing.
    pub(crate) fn retire(&self) {
        self.change(|| self.is_gone.store(true, Ordering::Release));
    }

    fn is_named(&self, name: &TenantName) -> bool {
        *self.name.read() == *name
    }

    fn reuse(&self, settings: &TenantSettings) -> TenantId {
        self.name.write().clone_from(&settings.name);
        self.tails.reset();
        self.set_guard(None, GiveWayOrder::ByAge);
        self.grant(settings);
        self.set_target(None);
        self.change(|| self.is_gone.store(false, Ordering::Release));
        self.id
    }

    fn grant(&self, settings: &TenantSettings) {
        let floor = settings.floor.map_or(0, |floor| floor.0);
        let ceiling = settings.ceiling.map_or(u64::MAX, |ceiling| ceiling.0);
        self.weight.store(settings.weight.0, Ordering::Relaxed);
        self.change(|| {
            self.floor.store(floor, Ordering::Relaxed);
            self.ceiling.store(ceiling, Ordering::Relaxed);
        });
    }

    /// Changes a bound on what it may hold, and recomputes what depends on it.
    fn change(&self, change: impl FnOnce()) {
        let _changing = self.changing.lock();
        change();
        self.floored.store(self.blocks_floored(), Ordering::Relaxed);
        self.allowed.store(self.blocks_allowed(), Ordering::Relaxed);
    }

    /// Sets weight, floor and ceiling.
    pub(crate) fn set(&self, settings: &TenantSettings) -> Result<(), TenantError> {
        self.check(settings)?;
        self.grant(settings);
        Ok(())
    }

    /// Checks that the tenant could have such settings. Another name means that the caller has a tenant that is gone.
    pub(crate) fn check(&self, settings: &TenantSettings) -> Result<(), TenantError> {
        check(settings)?;
        match self.is_named(&settings.name) {
            true => Ok(()),
            false => Err(TenantError::Unknown),
        }
    }

    pub(crate) fn settings(&self) -> TenantSettings {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        TenantSettings {
            name: self.name.read().clone(),
            weight: self.weight(),
            floor: self.floor(),
            ceiling: (ceiling != u64::MAX).then_some(Bytes(ceiling)),
        }
    }

    pub(crate) fn weight(&self) -> Weight {
        Weight(self.weight.load(Ordering::Relaxed))
    }

    fn floor(&self) -> Option<Bytes> {
        let floor = self.floor.load(Ordering::Relaxed);
        (floor != 0 && !self.is_gone()).then_some(Bytes(floor))
    }

    /// Blocks it owns.
    pub(crate) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn gained_block(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost_block(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Blocks of lenders that its pages are in. Those that were dropped do not count.
    pub(crate) fn far_held(&self) -> u32 {
        self.far_held.load(Ordering::Relaxed)
    }

    /// Returns whether some of its pages may be at lenders.
    #[inline]
    pub(crate) fn has_far_blocks(&self) -> bool {
        self.far_held() > 0
    }

    /// Counts a block of a lender that it took.
    pub(crate) fn gained_far_block(&self) {
        self.change(|| {
            self.far_held.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Counts a block of a lender that was dropped.
    pub(crate) fn lost_far_block(&self) {
        self.change(|| {
            self.far_held.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Counts one of its blocks as one that cannot go for a put.
    pub(crate) fn pinned_block(&self) {
        self.pinned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one such block less.
    pub(crate) fn lost_pinned_block(&self) {
        self.pinned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Blocks held per unit of weight if it had `more` blocks. This is fairness up to a common factor.
    pub(crate) fn per_weight(&self, more: u32) -> f64 {
        f64::from(self.held() + more) / f64::from(self.weight().0)
    }

    /// Blocks of the floor that the owner promised. They are rounded up, because less than a block is nothing, and
    /// never exceed its ceiling.
    pub(crate) fn promised_blocks(&self) -> u32 {
        let floor = self.floor().map_or(0, |floor| floor.0);
        self.blocks_for(floor).min(self.blocks_under_ceiling())
    }

    /// Blocks of its floor. If all memory is one pool, what it keeps of that counts too.
    pub(crate) fn floor_blocks(&self) -> u32 {
        self.floored.load(Ordering::Relaxed)
    }

    fn blocks_floored(&self) -> u32 {
        let guard = self.guard_blocks().unwrap_or(0);
        let guard = guard.min(self.blocks_under_ceiling());
        self.promised_blocks().max(guard)
    }

    /// Mortar's fairness: (held ÷ capacity) ÷ (weight ÷ sum of weights). Over 1, it holds more than its weighted share.
    pub(crate) fn fairness(&self, weights: u64, capacity_blocks: u32) -> f64 {
        let share = f64::from(self.weight().0) / weights.max(1) as f64;
        f64::from(self.held()) / f64::from(capacity_blocks.max(1)) / share
    }

    /// Returns whether its floor covers all that it holds. Then it has nothing to spare.
    pub(crate) fn is_within_floor(&self) -> bool {
        self.held() <= self.floor_blocks()
    }

    /// Returns whether it holds less than its floor.
    pub(crate) fn is_below_floor(&self) -> bool {
        self.held() < self.floor_blocks()
    }

    /// Blocks that cannot go for a put because persistent pages are in them.
    pub(crate) fn pinned(&self) -> u32 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// What the policy allows it now, if a policy has set a target.
    pub(crate) fn target(&self) -> Option<Bytes> {
        let target = self.target_bytes();
        (target != u64::MAX).then_some(Bytes(target))
    }

    /// The target in bytes. It is zero for a removed tenant, whatever a policy sets afterwards.
    fn target_bytes(&self) -> u64 {
        match self.is_gone() {
            true => 0,
            false => self.target.load(Ordering::Relaxed),
        }
    }

    /// Sets what the policy allows.
    pub(crate) fn set_target(&self, target: Option<Bytes>) {
        let bytes = target.map_or(u64::MAX, |target| target.0);
        self.change(|| self.target.store(bytes, Ordering::Relaxed));
    }

    /// Sets what it keeps if all memory is one pool, and when it gives the rest. `None` lets weights decide.
    pub(crate) fn set_guard(&self, guard: Option<Bytes>, giving: GiveWayOrder) {
        let bytes = guard.map_or(u64::MAX, |guard| guard.0);
        self.change(|| self.guard.store(bytes, Ordering::Relaxed));
        self.gives_first
            .store(giving == GiveWayOrder::First, Ordering::Relaxed);
    }

    /// When it gives way if all memory is one pool. A removed tenant gives first.
    pub(crate) fn giving(&self) -> GiveWayOrder {
        match self.is_gone() || self.gives_first.load(Ordering::Relaxed) {
            true => GiveWayOrder::First,
            false => GiveWayOrder::ByAge,
        }
    }

    /// Blocks that it may give to others if it keeps this many.
    pub(crate) fn spare_blocks(&self, keeps: u32) -> u32 {
        let reserved = self.reserved.load(Ordering::Relaxed);
        self.held().saturating_sub(keeps.saturating_add(reserved))
    }

    /// Reserves at most `wanted` blocks that it is about to give. Returns how many.
    pub(crate) fn reserve_blocks(&self, wanted: u32, keeps: u32) -> u32 {
        let mut blocks = 0;
        let _ = self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                let spare = self.held().saturating_sub(keeps.saturating_add(reserved));
                blocks = spare.min(wanted);
                (blocks > 0).then(|| reserved + blocks)
            });
        blocks
    }

    /// Ends a reservation, whether or not the blocks were given.
    pub(crate) fn release_reservation(&self, blocks: u32) {
        self.reserved.fetch_sub(blocks, Ordering::Relaxed);
    }

    /// Counts blocks that it gave for a put of `putter`. If that is the tenant itself, nothing is counted.
    pub(crate) fn gave_to(&self, putter: &Tenant, blocks: u32) {
        if putter.id != self.id {
            self.gave.fetch_add(blocks.into(), Ordering::Relaxed);
            putter.got.fetch_add(blocks.into(), Ordering::Relaxed);
        }
    }

    /// Blocks that it gave for others' puts, and blocks that it got from others for its own, since the start.
    pub(crate) fn traded(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.gave), load(&self.got))
    }

    /// Returns whether its memory is a part of one pool.
    pub(crate) fn is_pooled(&self) -> bool {
        self.guard.load(Ordering::Relaxed) != u64::MAX
    }

    /// Blocks that it keeps if all memory is one pool, rounded up.
    fn guard_blocks(&self) -> Option<u32> {
        let guard = self.guard.load(Ordering::Relaxed);
        let keeps = self.is_pooled() && !self.is_gone();
        keeps.then(|| self.blocks_for(guard))
    }

    /// Blocks that its ceiling allows it, at least one.
    fn blocks_under_ceiling(&self) -> u32 {
        self.blocks_in(self.ceiling.load(Ordering::Relaxed)).max(1)
    }

    /// Blocks of the arena that ceiling and target allow it, at least its floor. The target binds what it has here and
    /// at lenders together.
    fn blocks_allowed(&self) -> u32 {
        let target = self.blocks_in(self.target_bytes());
        let target = target.saturating_sub(self.far_held());
        let target = target.max(self.floor_blocks());
        self.blocks_under_ceiling().min(target)
    }

    /// Blocks of lenders that its target allows it, if tenants may hold `here` blocks of the arena and `borrowed` blocks
    /// of lenders together. `None` if it has no target: then weights decide.
    pub(crate) fn far_blocks_allowed(&self, here: u32, borrowed: u32) -> Option<u32> {
        let target = self.target()?.0;
        let (target, borrowed) = (u128::from(target), u128::from(borrowed));
        let total = (u128::from(here) + borrowed).max(1);
        let bytes = target * borrowed / total;
        let blocks = (bytes / self.block_bytes as u128).min(borrowed);
        Some(blocks as u32)
    }

    /// Blocks that it holds beyond its ceiling. A removed tenant has no ceiling left, so these are all its blocks.
    pub(crate) fn blocks_over_ceiling(&self) -> u32 {
        let allowed = match self.is_gone() {
            true => 0,
            false => self.blocks_under_ceiling(),
        };
        self.held().saturating_sub(allowed)
    }

    /// Returns whether this many more blocks would exceed what it may hold.
    pub(crate) fn is_at_limit(&self, more: u32) -> bool {
        self.held().saturating_add(more) > self.allowed.load(Ordering::Relaxed)
    }

    /// Blocks that it holds beyond what it may.
    pub(crate) fn blocks_over_limit(&self) -> u32 {
        self.held()
            .saturating_sub(self.allowed.load(Ordering::Relaxed))
    }

    /// Returns whether this many blocks fit under its ceiling at all.
    pub(crate) fn may_ever_hold(&self, blocks: u32) -> bool {
        let wanted = u64::from(blocks) * self.block_bytes as u64;
        blocks <= 1 || wanted <= self.ceiling.load(Ordering::Relaxed)
    }

    fn blocks_in(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / self.block_bytes as u64).unwrap_or(u32::MAX)
    }

    /// The smallest number of blocks that hold this many bytes.
    fn blocks_for(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.block_bytes as u64)).unwrap_or(u32::MAX)
    }
}

fn check(settings: &TenantSettings) -> Result<(), TenantError> {
    if settings.weight.0 == 0 {
        return Err(TenantError::NoWeight);
    }
    match (settings.floor, settings.ceiling) {
        (Some(floor), Some(ceiling)) if floor > ceiling => Err(TenantError::FloorAboveCeiling),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floors::Capacity;

    fn settings(name: &str, weight: u32) -> TenantSettings {
        TenantSettings {
            name: name.parse().expect("a name"),
            weight: Weight(weight),
            floor: None,
            ceiling: None,
        }
    }

    fn hold(tenants: &Tenants, id: TenantId, blocks: u32) {
        let tenant = tenants.get(id).expect("a tenant");
        tenant.held.store(blocks, Ordering::Relaxed);
    }

    const BLOCK: usize = 2 << 20;

    const ROOM: Capacity = Capacity {
        block_bytes: BLOCK,
        blocks: 100,
    };

    #[test]
    fn who_is_over_its_weighted_share_gives_way() {
        let tenants = Tenants::new(BLOCK);
        let light = tenants.add(settings("light", 100)).expect("added");
        let heavy = tenants.add(settings("heavy", 300)).expect("added");
        hold(&tenants, light, 50);
        hold(&tenants, heavy, 50);
        let (light, heavy) = (
            tenants.get(light).expect("there"),
            tenants.get(heavy).expect("there"),
        );
        assert_eq!(light.fairness(tenants.weights(), 100), 2.0);
        assert!((heavy.fairness(tenants.weights(), 100) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(tenants.gives_way(heavy, ROOM).tenant.id, light.id);
        assert_eq!(tenants.gives_way(light, ROOM).tenant.id, light.id);
        light.held.store(25, Ordering::Relaxed);
        heavy.held.store(75, Ordering::Relaxed);
        assert_eq!(
            tenants.gives_way(heavy, ROOM).tenant.id,
            heavy.id,
            "at equal fairness one's own go first"
        );
        assert_eq!(tenants.gives_way(light, ROOM).tenant.id, light.id);
    }

    #[test]
    fn a_floor_holds_against_other_tenants_and_not_against_the_host() {
        let tenants = Tenants::new(BLOCK);
        let floored = TenantSettings {
            floor: Some(Bytes(50 * BLOCK as u64)),
            ..settings("floored", 1)
        };
        let floored = tenants.add(floored).expect("added");
        let other = tenants.add(settings("other", 1000)).expect("added");
        hold(&tenants, floored, 50);
        hold(&tenants, other, 10);
        let putter = tenants.get(other).expect("there");
        assert_eq!(tenants.gives_way(putter, ROOM).tenant.id, other);
        hold(&tenants, other, 0);
        assert_eq!(tenants.gives_way(putter, ROOM).tenant.id, other);
        let quotas = |blocks| -> Vec<(TenantId, u32)> {
            let givers = tenants.give_back(blocks).into_iter();
            givers.map(|(tenant, quota)| (tenant.id, quota)).collect()
        };
        assert_eq!(quotas(1), [(floored, 1)]);
        hold(&tenants, other, 3);
        assert_eq!(
            quotas(2),
            [(other, 2)],
            "who is above its floor gives first"
        );
        assert_eq!(quotas(1000), [(floored, 50), (other, 3)]);
        hold(&tenants, floored, 60);
        assert_eq!(quotas(12), [(floored, 10), (other, 2)]);
    }

    #[test]
    fn a_tenant_that_went_is_found_by_nobody_until_it_comes_back() {
        let tenants = Tenants::new(BLOCK);
        let stays = tenants.add(settings("stays", 100)).expect("added");
        let goes = tenants.add(settings("goes", 300)).expect("added");
        let (stays, gone) = (
            tenants.get(stays).expect("there"),
            tenants.get(goes).expect("there"),
        );
        hold(&tenants, goes, 3);
        gone.retire();
        assert!(tenants.by_name(&settings("goes", 1).name).is_none());
        assert_eq!(tenants.present().count(), 1);
        assert_eq!(tenants.weights(), 100);
        assert_eq!(gone.blocks_over_limit(), 3, "all that it held goes");
        gone.set_target(Some(Bytes(2 * BLOCK as u64)));
        let floored = TenantSettings {
            floor: Some(Bytes(2 * BLOCK as u64)),
            ..settings("goes", 300)
        };
        assert_eq!(gone.set(&floored), Ok(()));
        assert_eq!(
            (gone.blocks_over_limit(), gone.floor_blocks()),
            (3, 0),
            "who looked before it went does not bring it back"
        );
        assert_eq!(tenants.gives_way(stays, ROOM).tenant.id, goes);
        assert_eq!(tenants.add(settings("goes", 7)), Ok(goes));
        assert_eq!((gone.weight(), gone.target()), (Weight(7), None));
        assert_eq!(tenants.weights(), 107);
    }

    #[test]
    fn wrong_settings_are_refused() {
        let tenants = Tenants::new(BLOCK);
        assert_eq!(tenants.add(settings("none", 0)), Err(TenantError::NoWeight));
        let crossed = TenantSettings {
            floor: Some(Bytes(2)),
            ceiling: Some(Bytes(1)),
            ..settings("crossed", 1)
        };
        assert_eq!(tenants.add(crossed), Err(TenantError::FloorAboveCeiling));
        assert!(tenants.add(settings("a", 1)).is_ok());
        assert_eq!(tenants.add(settings("a", 1)), Err(TenantError::Exists));
        for n in 1..TENANTS_MAX {
            assert!(tenants.add(settings(&format!("t{n}"), 1)).is_ok());
        }
        assert_eq!(
            tenants.add(settings("one-too-many", 1)),
            Err(TenantError::TooMany(TENANTS_MAX))
        );
    }
}
