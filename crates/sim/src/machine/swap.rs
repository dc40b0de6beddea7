//! A guest's swap space: slots in clusters of 512, filled one after another as in Linux.

/// Slots of a cluster: 2 MiB, which is one object of the tier.
pub(crate) const CLUSTER_SLOTS: u32 = 512;

const VACANT: u32 = u32::MAX;

/// A slot that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapSlot {
    /// The page in it, by the guest's number.
    pub page: u32,
    /// The number of the put that gave it to the tier, which the page's stamp also tells. 0 if the disk has it.
    pub put: u32,
}

impl SwapSlot {
    /// Returns whether the tier has it.
    pub(crate) fn is_in_tier(self) -> bool {
        self.put != 0
    }
}

const EMPTY: SwapSlot = SwapSlot {
    page: VACANT,
    put: 0,
};

/// Which page is in which slot.
#[derive(Clone, Debug)]
pub(crate) struct SwapSpace {
    slots: Vec<SwapSlot>,
    /// Vacant slots of each cluster.
    vacant: Vec<u32>,
    /// Clusters that were emptied.
    empty: Vec<u32>,
    /// Where the search for the next slot begins.
    cursor: u32,
    clusters_max: u32,
    /// Slots that are taken.
    taken: u32,
}

impl SwapSpace {
    /// An empty space of `slots` slots, rounded up to clusters.
    pub(crate) fn of(slots: u32) -> SwapSpace {
        SwapSpace {
            slots: Vec::new(),
            vacant: Vec::new(),
            empty: Vec::new(),
            cursor: 0,
            clusters_max: slots.div_ceil(CLUSTER_SLOTS).max(1),
            taken: 0,
        }
    }

    /// Returns whether more than half of all slots are taken.
    pub(crate) fn is_half_full(&self) -> bool {
        self.taken > self.clusters_max.saturating_mul(CLUSTER_SLOTS) / 2
    }

    /// Takes a slot for `page`. The tier has nothing of it yet. `None` if all slots are taken.
    pub(crate) fn allocate(&mut self, page: u32) -> Option<u32> {
        let cluster = self.cursor / CLUSTER_SLOTS;
        let has_room = self.vacant.get(cluster as usize).is_some_and(|n| *n > 0);
        if !has_room || !self.seek_in(cluster) {
            let cluster = self.next_cluster()?;
            self.cursor = cluster * CLUSTER_SLOTS;
            self.seek_in(cluster);
        }
        let slot = self.cursor;
        self.slots[slot as usize] = SwapSlot { page, put: 0 };
        self.taken += 1;
        self.vacant[(slot / CLUSTER_SLOTS) as usize] -= 1;
        // The last slot of a cluster keeps the cursor in it. The next search finds the cluster full.
        self.cursor += u32::from(!(slot + 1).is_multiple_of(CLUSTER_SLOTS));
        Some(slot)
    }

    /// The content of a slot.
    pub(crate) fn slot(&self, slot: u32) -> SwapSlot {
        self.slots[slot as usize]
    }

    /// Records that the tier has the content of a slot since put number `put`.
    pub(crate) fn record_put(&mut self, slot: u32, put: u32) {
        self.slots[slot as usize].put = put;
    }

    /// Frees a slot. Returns its content.
    pub(crate) fn free(&mut self, slot: u32) -> SwapSlot {
        let given = std::mem::replace(&mut self.slots[slot as usize], EMPTY);
        self.taken -= 1;
        let cluster = slot / CLUSTER_SLOTS;
        let vacant = &mut self.vacant[cluster as usize];
        *vacant += 1;
        if *vacant == CLUSTER_SLOTS && self.cursor / CLUSTER_SLOTS != cluster {
            self.empty.push(cluster);
        }
        given
    }

    /// The taken slots in the aligned window of `window` slots (a power of two) around `slot`.
    pub(crate) fn around(
        &self,
        slot: u32,
        window: u32,
    ) -> impl Iterator<Item = (u32, SwapSlot)> + '_ {
        let from = slot - slot % window.max(1);
        (from..from + window.max(1)).filter_map(|number| {
            let slot = *self.slots.get(number as usize)?;
            (slot.page != VACANT).then_some((number, slot))
        })
    }

    /// Moves the cursor to a vacant slot of `cluster`. It searches from the cursor on, then from the beginning.
    fn seek_in(&mut self, cluster: u32) -> bool {
        let (first, end) = (cluster * CLUSTER_SLOTS, (cluster + 1) * CLUSTER_SLOTS);
        let mut order = (self.cursor..end).chain(first..self.cursor);
        let found = order.find(|slot| self.slots[*slot as usize].page == VACANT);
        self.cursor = found.unwrap_or(self.cursor);
        found.is_some()
    }

    /// An emptied cluster, a new one, or any with a vacant slot.
    fn next_cluster(&mut self) -> Option<u32> {
        while let Some(cluster) = self.empty.pop() {
            if self.vacant[cluster as usize] == CLUSTER_SLOTS {
                return Some(cluster);
            }
        }
        let clusters = self.vacant.len() as u32;
        if clusters < self.clusters_max {
            self.vacant.push(CLUSTER_SLOTS);
            self.slots
                .resize(self.slots.len() + CLUSTER_SLOTS as usize, EMPTY);
            return Some(clusters);
        }
        let first = self.vacant.iter().position(|vacant| *vacant > 0)?;
        Some(first as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SimRng;

    #[test]
    fn slots_follow_one_another_while_clusters_are_empty() {
        let mut swap = SwapSpace::of(2 * CLUSTER_SLOTS);
        let slots: Vec<u32> = (0..600).filter_map(|page| swap.allocate(page)).collect();
        assert_eq!(slots, (0..600).collect::<Vec<u32>>());
        let around: Vec<(u32, SwapSlot)> = swap.around(597, 8).collect();
        assert_eq!(around.first(), Some(&(592, SwapSlot { page: 592, put: 0 })));
        assert_eq!(around.len(), 8);
    }

    #[test]
    fn every_slot_is_given_once_and_again_after_it_came_back() {
        let all = 3 * CLUSTER_SLOTS;
        let mut swap = SwapSpace::of(all);
        let mut rng = SimRng::seeded(2);
        let mut taken: Vec<Option<SwapSlot>> = vec![None; all as usize];
        for page in 0..40_000u32 {
            let is_full = taken.iter().all(Option::is_some);
            if rng.happens(0.55) || page < 1000 {
                let slot = swap.allocate(page);
                assert_eq!(slot.is_none(), is_full);
                if let Some(slot) = slot {
                    let put = page % 2;
                    swap.record_put(slot, put);
                    assert_eq!(taken[slot as usize].replace(SwapSlot { page, put }), None);
                }
            } else {
                let slot = rng.below(u64::from(all)) as usize;
                if let Some(given) = taken[slot].take() {
                    assert_eq!(swap.slot(slot as u32), given);
                    assert_eq!(swap.free(slot as u32), given);
                }
            }
        }
        assert!(
            swap.around(0, all).eq((0u32..)
                .zip(&taken)
                .filter_map(|(number, slot)| slot.map(|slot| (number, slot))))
        );
    }
}
