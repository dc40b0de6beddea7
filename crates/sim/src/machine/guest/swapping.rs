//! Anonymous memory. Pages that leave go to the swap space: to the tier if it takes them, else to the disk.

use super::memory::{EntryIndex, GuestMemory};
use super::{AfterSwapIn, Guest, GuestBackends, GuestError, PageSource, WindowPage};
use crate::machine::swap::{CLUSTER_SLOTS, SwapSlot};
use crate::machine::tier::{PageStamp, PoolKind, TierPage};
use crate::traces::PageOp;
use crate::virtual_time::VirtualInstant;

/// The region of a guest's swap space on the disk.
const SWAP_REGION: u64 = u64::MAX;

impl Guest {
    /// Reads or writes a page of anonymous memory.
    pub(super) fn touch(
        &mut self,
        page: u64,
        op: PageOp,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        self.counts.touches += 1;
        let now = now + self.shape.costs.touch;
        let entry = self.memory.anonymous(page);
        let slot = self.slot_of(entry);
        let ready = match (self.memory.touch(entry, now, self.began), slot) {
            (Some(touched), _) => self.wait_for_page(touched, now),
            (None, Some(slot)) => self.swap_in(slot, now, backends)?,
            (None, None) => self.first_touch(entry, now, backends)?,
        };
        match op {
            PageOp::Write => Ok(self.drop_slot(entry, ready, backends)),
            PageOp::Read => Ok(ready),
        }
    }

    fn first_touch(
        &mut self,
        entry: EntryIndex,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        let now = self.make_room(now + self.shape.costs.fault, backends)?;
        self.memory.insert_anonymous(entry, VirtualInstant::START);
        Ok(now)
    }

    /// Brings in the page of a slot and the others of its aligned window of slots.
    fn swap_in(
        &mut self,
        requested: u32,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        self.counts.faults += 1;
        let mut slots = std::mem::take(&mut self.scratch.slots);
        let mut window = std::mem::take(&mut self.scratch.window);
        slots.clear();
        slots.push((requested, self.swap.slot(requested)));
        let others = self
            .swap
            .around(requested, self.swap_ahead.window(requested));
        slots.extend(others.filter(|(number, _)| *number != requested));
        let present = self.present(&slots);
        let mut now = now + self.shape.costs.fault;
        window.clear();
        for (_, (number, slot)) in (0..).zip(&slots).filter(|(n, _)| present >> n & 1 == 0) {
            let (fetched, done) = self.fetch_slot(*number, *slot, now, backends);
            window.push(fetched);
            now = done;
        }
        let done = self.bring_in(&window, GuestMemory::insert_anonymous, now, backends);
        for ahead in window.iter().skip(1) {
            self.memory.mark_ahead(ahead.entry);
        }
        self.scratch.slots = slots;
        self.scratch.window = window;
        done
    }

    /// Which of the pages of up to 64 slots are in memory, as bits. It looks at all before it decides on any, so the
    /// processor waits for their entries together instead of one after another.
    fn present(&self, slots: &[(u32, SwapSlot)]) -> u64 {
        (0..).zip(slots).fold(0, |present, (n, (_, slot))| {
            present | u64::from(self.memory.has(EntryIndex(slot.page))) << n
        })
    }

    /// Gets a swapped page from the tier, or notes that the disk must read it.
    fn fetch_slot(
        &mut self,
        number: u32,
        slot: SwapSlot,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> (WindowPage, VirtualInstant) {
        let (arrived, mut now) = match slot.is_in_tier() {
            true => self.get(self.slot_page(number), slot.put, now, backends),
            false => (Some(PageSource::FromDisk), now),
        };
        self.counts.pages_lost += u64::from(arrived.is_none());
        if self.gives_slot_up(slot) {
            now = self.drop_slot(EntryIndex(slot.page), now, backends);
        }
        let fetched = WindowPage {
            entry: EntryIndex(slot.page),
            on_disk: self.disk_address(SWAP_REGION, u64::from(number)),
            arrived: arrived.unwrap_or(PageSource::FromDisk),
        };
        (fetched, now)
    }

    /// Returns whether a page that is read back gives up its slot and becomes dirty again. It does so if the tier's
    /// copy is one too many. As in Linux (`vm_swap_full`), it also does so if half of the swap space is taken.
    fn gives_slot_up(&self, slot: SwapSlot) -> bool {
        let is_copy = slot.is_in_tier() && self.shape.after_swap_in == AfterSwapIn::Free;
        is_copy || self.swap.is_half_full()
    }

    /// Moves a page that has just left memory to the swap space.
    pub(super) fn swap_out(
        &mut self,
        entry: EntryIndex,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        let number = self.swap.allocate(entry.0).ok_or(GuestError::SwapFull)?;
        self.memory.set_note(entry, number + 1);
        self.swap_outs = self.swap_outs.wrapping_add(1).max(1);
        let tier_page = self.slot_page(number);
        let stamp = PageStamp::of(tier_page, self.swap_outs);
        let (in_tier, mut now) = self.put(tier_page, stamp, now, backends);
        match in_tier {
            true => self.swap.record_put(number, self.swap_outs),
            false => {
                self.counts.disk_pages_written += 1;
                let address = self.disk_address(SWAP_REGION, u64::from(number));
                now = self.wait(now, backends.disk.write(now, address, 1));
            }
        }
        Ok(now)
    }

    /// The slot that has a copy of an anonymous page.
    pub(super) fn slot_of(&self, entry: EntryIndex) -> Option<u32> {
        self.memory.note_of(entry).checked_sub(1)
    }

    /// Gives up a page's slot, if it has one, because its content is no longer wanted.
    fn drop_slot(
        &mut self,
        entry: EntryIndex,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> VirtualInstant {
        let Some(number) = self.slot_of(entry) else {
            return now;
        };
        self.memory.set_note(entry, 0);
        let slot = self.swap.free(number);
        if !slot.is_in_tier() {
            return now;
        }
        backends.tier.flush_page(self.slot_page(number), now);
        now + self.shape.costs.refusal
    }

    /// Frees anonymous pages.
    pub(super) fn release(
        &mut self,
        from: u64,
        count: u64,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> VirtualInstant {
        (from..from.saturating_add(count)).fold(now, |now, page| {
            let Some(entry) = self.memory.known_anonymous(page) else {
                return now;
            };
            self.memory.remove(entry);
            self.drop_slot(entry, now, backends)
        })
    }

    fn slot_page(&self, slot: u32) -> TierPage {
        self.tier_page(
            PoolKind::Swap,
            u64::from(slot / CLUSTER_SLOTS),
            slot % CLUSTER_SLOTS,
        )
    }
}
