//! Where lost memory went, and where gained memory came from, in amounts that add up.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::{Pages, TenantId};

use crate::apportion::{WeightedClaim, apportion};

/// Who holds how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryHoldings {
    /// What each tenant holds.
    pub tenants: Vec<(TenantId, Pages)>,
    /// What nobody holds.
    pub free: Pages,
    /// What tenants hold beyond what there is for them. If the total sinks, they follow a moment later.
    pub over: Pages,
}

/// Somebody's part of what another lost or got. `T` identifies a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTransfer<T> {
    /// Who has it now, or had it.
    pub place: Holder<T>,
    /// How much of it.
    pub pages: Pages,
}

/// Where memory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder<T> {
    /// A tenant has it.
    Tenant(T),
    /// Nobody has it.
    Free,
    /// The host has it: the arena is smaller or larger by this.
    Host,
    /// Further tenants, each with less of it than those that are named.
    Others,
}

impl MemoryHoldings {
    fn total(&self) -> u64 {
        let held: u64 = self.tenants.iter().map(|tenant| tenant.1.0).sum();
        (self.free.0 + held).saturating_sub(self.over.0)
    }
}

/// This many tenants are named; the rest are summed up.
const NAMED_MAX: usize = 5;

/// Who has less than before and who has more. If several lost, what each one lost went to all that got some, in
/// proportion, and the other way round.
#[derive(Clone, Debug, Default)]
pub struct MemoryTransfers {
    losers: Vec<(Holder<TenantId>, u64)>,
    gainers: Vec<(Holder<TenantId>, u64)>,
}

impl MemoryTransfers {
    /// What changed from one set of holdings to another.
    pub fn between(before: &MemoryHoldings, after: &MemoryHoldings) -> MemoryTransfers {
        let mut had: BTreeMap<TenantId, u64> = BTreeMap::new();
        had.extend(before.tenants.iter().map(|(id, pages)| (*id, pages.0)));
        let mut moves = MemoryTransfers::default();
        for (id, pages) in &after.tenants {
            let had = had.remove(id).unwrap_or(0);
            moves.add(Holder::Tenant(*id), had, pages.0);
        }
        for (id, had) in had {
            moves.add(Holder::Tenant(id), had, 0);
        }
        let over = before.over.max(after.over).0;
        let free = |standing: &MemoryHoldings| standing.free.0 + over - standing.over.0;
        moves.add(Holder::Free, free(before), free(after));
        // The host has what the tenants together have less.
        moves.add(Holder::Host, after.total(), before.total());
        moves.losers = shortened(moves.losers);
        moves.gainers = shortened(moves.gainers);
        moves
    }

    fn add(&mut self, place: Holder<TenantId>, had: u64, has: u64) {
        match has.cmp(&had) {
            Ordering::Less => self.losers.push((place, had - has)),
            Ordering::Greater => self.gainers.push((place, has - had)),
            Ordering::Equal => {}
        }
    }

    /// Where the memory went that a tenant lost. The amounts add up to `lost`.
    pub fn of_loss(&self, lost: Pages) -> Vec<MemoryTransfer<TenantId>> {
        divided(lost, &self.gainers)
    }

    /// Where the memory came from that a tenant got. The amounts add up to `got`.
    pub fn of_gain(&self, got: Pages) -> Vec<MemoryTransfer<TenantId>> {
        divided(got, &self.losers)
    }
}

/// Keeps the largest, and sums up the rest.
fn shortened(mut sides: Vec<(Holder<TenantId>, u64)>) -> Vec<(Holder<TenantId>, u64)> {
    sides.sort_by_key(|side| std::cmp::Reverse(side.1));
    let rest: u64 = sides.iter().skip(NAMED_MAX).map(|side| side.1).sum();
    sides.truncate(NAMED_MAX);
    if rest > 0 {
        sides.push((Holder::Others, rest));
    }
    sides
}

fn divided(amount: Pages, sides: &[(Holder<TenantId>, u64)]) -> Vec<MemoryTransfer<TenantId>> {
    if sides.is_empty() {
        return Vec::new();
    }
    let part = |(n, side): (usize, &(Holder<TenantId>, u64))| WeightedClaim {
        id: TenantId(n as u16),
        weight: side.1,
    };
    let parts: Vec<WeightedClaim> = sides.iter().enumerate().map(part).collect();
    let amounts = apportion(amount.0, &parts);
    let made = sides
        .iter()
        .zip(amounts)
        .map(|((place, _), pages)| MemoryTransfer {
            place: place.clone(),
            pages: Pages(pages),
        });
    made.filter(|one| one.pages.0 > 0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn standing(tenants: &[(u16, u64)], free: u64) -> MemoryHoldings {
        let tenant = |&(id, pages): &(u16, u64)| (TenantId(id), Pages(pages));
        MemoryHoldings {
            tenants: tenants.iter().map(tenant).collect(),
            free: Pages(free),
            over: Pages(0),
        }
    }

    /// The index took a block. There is less for tenants, who give it up a moment later. Only the first change is the
    /// host's.
    #[test]
    fn what_is_given_up_late_went_to_nobody_but_once() {
        let full = standing(&[(1, 100)], 0);
        let late = MemoryHoldings {
            over: Pages(8),
            ..full.clone()
        };
        let given = standing(&[(1, 92)], 0);
        assert_eq!(losses_of(1, &full, &given), [(Holder::Host, 8)]);
        assert_eq!(losses_of(1, &late, &given), [(Holder::Free, 8)]);
    }

    fn losses_of(
        id: u16,
        before: &MemoryHoldings,
        after: &MemoryHoldings,
    ) -> Vec<(Holder<u16>, u64)> {
        let of = |standing: &MemoryHoldings| -> u64 {
            let own = standing.tenants.iter().find(|tenant| tenant.0.0 == id);
            own.map_or(0, |tenant| tenant.1.0)
        };
        let (had, has) = (of(before), of(after));
        let moves = MemoryTransfers::between(before, after);
        let made = match has < had {
            true => moves.of_loss(Pages(had - has)),
            false => moves.of_gain(Pages(has - had)),
        };
        let plain = |place| match place {
            Holder::Tenant(TenantId(id)) => Holder::Tenant(id),
            Holder::Free => Holder::Free,
            Holder::Host => Holder::Host,
            Holder::Others => Holder::Others,
        };
        let made = made.into_iter();
        made.map(|one| (plain(one.place), one.pages.0)).collect()
    }

    #[test]
    fn what_one_lost_others_have() {
        let before = standing(&[(1, 100), (2, 50), (3, 30)], 20);
        let after = standing(&[(1, 60), (2, 80), (3, 20)], 40);
        // 50 were lost: 30 of them are with 2, 20 are free. Of 1's 40 it is 24 and 16, of 3's 10 it is 6 and 4.
        assert_eq!(
            losses_of(1, &before, &after),
            [(Holder::Tenant(2), 24), (Holder::Free, 16)]
        );
        assert_eq!(
            losses_of(3, &before, &after),
            [(Holder::Tenant(2), 6), (Holder::Free, 4)]
        );
        assert_eq!(
            losses_of(2, &before, &after),
            [(Holder::Tenant(1), 24), (Holder::Tenant(3), 6)]
        );
    }

    #[test]
    fn the_arena_gives_to_the_host_and_takes_from_it() {
        let before = standing(&[(1, 100), (2, 50)], 0);
        let after = standing(&[(1, 60), (2, 70)], 0);
        assert_eq!(
            losses_of(1, &before, &after),
            [(Holder::Tenant(2), 20), (Holder::Host, 20)]
        );
        assert_eq!(
            losses_of(1, &after, &before),
            [(Holder::Tenant(2), 20), (Holder::Host, 20)]
        );
        assert_eq!(losses_of(1, &before, &before), []);
        let newcomer = standing(&[(1, 60), (2, 50), (3, 40)], 0);
        assert_eq!(losses_of(3, &before, &newcomer), [(Holder::Tenant(1), 40)]);
    }

    #[test]
    fn who_got_little_is_told_together() {
        let before: Vec<(u16, u64)> = (1..=9).map(|id| (id, 100)).collect();
        let after: Vec<(u16, u64)> = (1..=9).map(|id| (id, 100 + u64::from(id))).collect();
        let after = [&after[1..], &[(10, 0)]].concat();
        let losses = losses_of(1, &standing(&before, 0), &standing(&after, 0));
        // 44 pages were got, and the arena has 56 less.
        let ought = [
            (Holder::Host, 56),
            (Holder::Tenant(9), 9),
            (Holder::Tenant(8), 8),
            (Holder::Tenant(7), 7),
            (Holder::Tenant(6), 6),
            (Holder::Others, 14),
        ];
        assert_eq!(losses, ought);
    }

    proptest! {
        #[test]
        fn amounts_add_up(
            before in prop::collection::vec(0u64..1000, 5), after in prop::collection::vec(0u64..1000, 5),
        ) {
            let standing = |all: &[u64]| {
                let tenants: Vec<(u16, u64)> = (1..).zip(all[1..].iter().copied()).collect();
                standing(&tenants, all[0])
            };
            let (old, new) = (standing(&before), standing(&after));
            for (id, n) in (1..).zip(1..5) {
                let sum: u64 = losses_of(id, &old, &new).iter().map(|one| one.1).sum();
                prop_assert_eq!(sum, before[n].abs_diff(after[n]));
            }
        }
    }
}
