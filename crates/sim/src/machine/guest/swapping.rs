//! Anonymous memory: what leaves goes to the swap space, in the tier where that takes it, else on the disk.

use super::memory::{Memory, Place};
use super::{AfterSwapIn, Arrival, Fetched, Guest, GuestFault, Surroundings};
use crate::machine::swap::{CLUSTER_SLOTS, Slot};
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
        let place = self.memory.anonymous(page);
        let slot = self.slot_of(place);
        let ready = match (self.memory.touch(place, now, self.began), slot) {
            (Some(touched), _) => self.found(touched, now),
            (None, Some(slot)) => self.swap_in(slot, now, around)?,
            (None, None) => self.first_touch(place, now, around)?,
        };
        match write {
            true => Ok(self.drop_slot(place, ready, around)),
            false => Ok(ready),
        }
    }

    fn first_touch(
        &mut self,
        place: Place,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let now = self.make_room(now + self.shape.costs.fault, around)?;
        self.memory.insert_anonymous(place, Moment::START);
        Ok(now)
    }

    /// Brings in the page in a slot and the others of its aligned window of slots.
    fn swap_in(
        &mut self,
        asked: u32,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        self.counts.faults += 1;
        let mut slots = std::mem::take(&mut self.scratch.slots);
        let mut window = std::mem::take(&mut self.scratch.window);
        slots.clear();
        slots.push((asked, self.swap.slot(asked)));
        let others = self.swap.around(asked, self.swap_ahead.window(asked));
        slots.extend(others.filter(|(number, _)| *number != asked));
        let present = self.present(&slots);
        let mut now = now + self.shape.costs.fault;
        window.clear();
        for (_, (number, slot)) in (0..).zip(&slots).filter(|(n, _)| present >> n & 1 == 0) {
            let (fetched, done) = self.fetch_slot(*number, *slot, now, around);
            window.push(fetched);
            now = done;
        }
        let done = self.bring_in(&window, Memory::insert_anonymous, now, around);
        for ahead in window.iter().skip(1) {
            self.memory.mark_ahead(ahead.place);
        }
        self.scratch.slots = slots;
        self.scratch.window = window;
        done
    }

    /// Which of up to 64 slots' pages are in memory, as bits. All are looked at before any is decided on: so the
    /// processor waits for their entries together, not for one after another.
    fn present(&self, slots: &[(u32, Slot)]) -> u64 {
        (0..).zip(slots).fold(0, |present, (n, (_, slot))| {
            present | u64::from(self.memory.has(Place(slot.page))) << n
        })
    }

    /// Gets a swapped page from the tier, or notes that it is to be read from the disk.
    fn fetch_slot(
        &mut self,
        number: u32,
        slot: Slot,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> (Fetched, Moment) {
        let (arrived, mut now) = match slot.is_in_tier() {
            true => self.get(self.slot_page(number), slot.put, now, around),
            false => (Some(Arrival::FromDisk), now),
        };
        self.counts.pages_lost += u64::from(arrived.is_none());
        if self.gives_slot_up(slot) {
            now = self.drop_slot(Place(slot.page), now, around);
        }
        let fetched = Fetched {
            place: Place(slot.page),
            on_disk: self.disk_place(SWAP_REGION, u64::from(number)),
            arrived: arrived.unwrap_or(Arrival::FromDisk),
        };
        (fetched, now)
    }

    /// Whether a page that is read back gives its slot up, and is dirty again: where the tier's copy is one too
    /// many, and, as in Linux (`vm_swap_full`), where half of the swap space is taken.
    fn gives_slot_up(&self, slot: Slot) -> bool {
        let is_copy = slot.is_in_tier() && self.shape.after_swap_in == AfterSwapIn::Free;
        is_copy || self.swap.is_half_full()
    }

    /// Moves a page that has just left memory to the swap space.
    pub(super) fn swap_out(
        &mut self,
        place: Place,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let number = self.swap.take(place.0).ok_or(GuestFault::SwapFull)?;
        self.memory.set_note(place, number + 1);
        self.swap_outs = self.swap_outs.wrapping_add(1).max(1);
        let tier_page = self.slot_page(number);
        let stamp = Stamp::of(tier_page, self.swap_outs);
        let (in_tier, mut now) = self.put(tier_page, stamp, now, around);
        match in_tier {
            true => self.swap.note_put(number, self.swap_outs),
            false => {
                self.counts.disk_pages_written += 1;
                let place = self.disk_place(SWAP_REGION, u64::from(number));
                now = self.wait(now, around.disk.write(now, place, 1));
            }
        }
        Ok(now)
    }

    /// The slot that has a copy of an anonymous page.
    pub(super) fn slot_of(&self, place: Place) -> Option<u32> {
        self.memory.note(place).checked_sub(1)
    }

    /// Gives up a page's slot, if it has one: its content is no longer wanted.
    fn drop_slot(&mut self, place: Place, now: Moment, around: &mut Surroundings<'_>) -> Moment {
        let Some(number) = self.slot_of(place) else {
            return now;
        };
        self.memory.set_note(place, 0);
        let slot = self.swap.give_back(number);
        if !slot.is_in_tier() {
            return now;
        }
        around.tier.flush_page(self.slot_page(number), now);
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
            let Some(place) = self.memory.known_anonymous(page) else {
                return now;
            };
            self.memory.remove(place);
            self.drop_slot(place, now, around)
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
