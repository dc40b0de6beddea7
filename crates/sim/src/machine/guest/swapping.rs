//! Anonymous memory: what leaves goes to the swap space, in the tier where that takes it, else on the disk.

use super::{
    AfterSwapIn, Arrival, Fetched, Guest, GuestFault, PageName, Resident, Surroundings, Swapped,
};
use crate::machine::swap::CLUSTER_SLOTS;
use crate::machine::tier::{Pool, Stamp, TierPage};
use crate::virtual_time::Moment;

/// The region of a guest's swap space on the disk.
const SWAP_REGION: u64 = u64::MAX;

impl Guest {
    /// Reads or writes a page of anonymous memory.
    pub(super) fn touch(
        &mut self,
        page: u64,
        write: bool,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        self.counts.touches += 1;
        let now = now + self.shape.costs.touch;
        let name = PageName::Anonymous(page);
        if let Some(resident) = self.memory.touch(&name) {
            self.counts.memory_hits += 1;
            let ready = now.max(resident.ready_at);
            let spoils_slot = write && std::mem::take(&mut resident.has_slot);
            return Ok(match spoils_slot {
                true => self.drop_slot(page, ready, around),
                false => ready,
            });
        }
        let ready = match self.swapped.contains_key(&page) {
            true => self.swap_in(page, now, around)?,
            false => self.first_touch(name, now, around)?,
        };
        let spoils_slot = write && self.take_slot_of(name);
        match spoils_slot {
            true => Ok(self.drop_slot(page, ready, around)),
            false => Ok(ready),
        }
    }

    fn take_slot_of(&mut self, name: PageName) -> bool {
        let resident = self.memory.peek_mut(&name);
        resident.is_some_and(|resident| std::mem::take(&mut resident.has_slot))
    }

    fn first_touch(
        &mut self,
        name: PageName,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let now = self.make_room(now + self.shape.costs.fault, around)?;
        self.memory.insert(name, anonymous(false));
        Ok(now)
    }

    /// Brings in a page and the others of its aligned window of slots.
    fn swap_in(
        &mut self,
        page: u64,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        self.counts.faults += 1;
        let Some(asked) = self.swapped.get(&page).copied() else {
            return Ok(now);
        };
        let others = self.swap.around(asked.slot, self.shape.read_ahead);
        let absent = |(_, other): &(u32, u64)| {
            *other != page && !self.memory.contains(&PageName::Anonymous(*other))
        };
        let mut pages = vec![page];
        pages.extend(others.filter(absent).map(|(_, other)| other));
        let mut now = now + self.shape.costs.fault;
        let mut window = Vec::with_capacity(pages.len());
        for page in pages {
            let (fetched, done) = self.fetch_slot(page, now, around);
            window.extend(fetched);
            now = done;
        }
        let resident = |guest: &Guest, name| match name {
            PageName::Anonymous(page) => anonymous(guest.swapped.contains_key(&page)),
            PageName::File(..) => anonymous(false),
        };
        self.bring_in(&window, resident, now, around)
    }

    /// Gets a swapped page from the tier, or notes that it is to be read from the disk.
    fn fetch_slot(
        &mut self,
        page: u64,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> (Option<Fetched>, Moment) {
        let Some(swapped) = self.swapped.get(&page).copied() else {
            return (None, now);
        };
        let (arrived, mut now) = match swapped.in_tier {
            true => self.get(self.slot_page(swapped.slot), swapped.version, now, around),
            false => (Some(Arrival::FromDisk), now),
        };
        self.counts.pages_lost += u64::from(arrived.is_none());
        if self.gives_slot_up(swapped) {
            now = self.drop_slot(page, now, around);
        }
        let fetched = Fetched {
            name: PageName::Anonymous(page),
            place: self.disk_place(SWAP_REGION, u64::from(swapped.slot)),
            arrived: arrived.unwrap_or(Arrival::FromDisk),
        };
        (Some(fetched), now)
    }

    /// Whether a page that is read back gives its slot up, and is dirty again: where the tier's copy is one too
    /// many, and, as in Linux (`vm_swap_full`), where half of the swap space is taken.
    fn gives_slot_up(&self, swapped: Swapped) -> bool {
        let is_copy = swapped.in_tier && self.shape.after_swap_in == AfterSwapIn::Free;
        is_copy || self.swap.is_half_full()
    }

    /// Moves a page that has just left memory to the swap space.
    pub(super) fn swap_out(
        &mut self,
        page: u64,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let slot = self.swap.take(page).ok_or(GuestFault::SwapFull)?;
        self.swap_outs = self.swap_outs.wrapping_add(1);
        let version = self.swap_outs;
        let tier_page = self.slot_page(slot);
        let stamp = Stamp::of(tier_page, version);
        let (in_tier, mut now) = self.put(tier_page, stamp, now, around);
        if !in_tier {
            self.counts.disk_pages_written += 1;
            let place = self.disk_place(SWAP_REGION, u64::from(slot));
            now = around.disk.write(now, place, 1);
        }
        let swapped = Swapped {
            slot,
            in_tier,
            version,
        };
        self.swapped.insert(page, swapped);
        Ok(now)
    }

    /// Gives up a page's slot, whose content is no longer wanted.
    fn drop_slot(&mut self, page: u64, now: Moment, around: &mut Surroundings<'_>) -> Moment {
        let Some(swapped) = self.swapped.remove(&page) else {
            return now;
        };
        self.swap.give_back(swapped.slot);
        if !swapped.in_tier {
            return now;
        }
        around.tier.flush_page(self.slot_page(swapped.slot), now);
        now + self.shape.costs.refusal
    }

    /// Frees anonymous pages.
    pub(super) fn release(
        &mut self,
        from: u64,
        count: u64,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Moment {
        (from..from.saturating_add(count)).fold(now, |now, page| {
            self.memory.remove(&PageName::Anonymous(page));
            self.drop_slot(page, now, around)
        })
    }

    fn slot_page(&self, slot: u32) -> TierPage {
        self.tier_page(
            Pool::Swap,
            u64::from(slot / CLUSTER_SLOTS),
            slot % CLUSTER_SLOTS,
        )
    }
}

fn anonymous(has_slot: bool) -> Resident {
    Resident {
        dirty: !has_slot,
        has_slot,
        version: 0,
        ready_at: Moment::START,
    }
}
