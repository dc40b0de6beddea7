//! Where memory went that somebody lost, and where it came from that somebody got: amounts that add up.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::{Pages, TenantId};

use crate::apportion::{Part, apportion};

/// Who has how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Each tenant.
    pub tenants: Vec<(TenantId, Pages)>,
    /// What nobody has.
    pub free: Pages,
    /// What tenants have beyond what there is for them: where that sinks, they follow a moment later.
    pub over: Pages,
}

/// Somebody's part of what another lost or got. `T` says who a tenant is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move<T> {
    /// Who has it now, or had it.
    pub place: Place<T>,
    /// How much of it.
    pub pages: Pages,
}

/// Where memory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place<T> {
    /// A tenant has it.
    Tenant(T),
    /// Nobody has it, or it is given to nobody.
    Free,
    /// The host: the arena is smaller or larger by it.
    Host,
    /// Tenants of whom each has less of it than those who are named.
    Others,
}

impl Standing {
    fn total(&self) -> u64 {
        let held: u64 = self.tenants.iter().map(|tenant| tenant.1.0).sum();
        (self.free.0 + held).saturating_sub(self.over.0)
    }
}

/// Those who are named; the rest are told together.
const NAMED_MAX: usize = 5;

/// Who has less than before and who has more. When several lost, what each one lost went to all who got some, in proportion,
/// and the other way round.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    losers: Vec<(Place<TenantId>, u64)>,
    gainers: Vec<(Place<TenantId>, u64)>,
}

impl Moves {
    /// What changed from one standing to another.
    pub fn between(before: &Standing, after: &Standing) -> Moves {
        let mut had: BTreeMap<TenantId, u64> = BTreeMap::new();
        had.extend(before.tenants.iter().map(|(id, pages)| (*id, pages.0)));
        let mut moves = Moves::default();
        for (id, pages) in &after.tenants {
            let had = had.remove(id).unwrap_or(0);
            moves.add(Place::Tenant(*id), had, pages.0);
        }
        for (id, had) in had {
            moves.add(Place::Tenant(id), had, 0);
        }
        let over = before.over.max(after.over).0;
        let free = |standing: &Standing| standing.free.0 + over - standing.over.0;
        moves.add(Place::Free, free(before), free(after));
        // What the tenants have less together, the host has more.
        moves.add(Place::Host, after.total(), before.total());
        moves.losers = shortened(moves.losers);
        moves.gainers = shortened(moves.gainers);
        moves
    }

    fn add(&mut self, place: Place<TenantId>, had: u64, has: u64) {
        match has.cmp(&had) {
            Ordering::Less => self.losers.push((place, had - has)),
            Ordering::Greater => self.gainers.push((place, has - had)),
            Ordering::Equal => {}
        }
    }

    /// Where so much went that a tenant lost; together as much as that.
    pub fn of_loss(&self, lost: Pages) -> Vec<Move<TenantId>> {
        divided(lost, &self.gainers)
    }

    /// Where so much came from that a tenant got; together as much as that.
    pub fn of_gain(&self, got: Pages) -> Vec<Move<TenantId>> {
        divided(got, &self.losers)
    }
}

/// The largest first, the rest together.
fn shortened(mut sides: Vec<(Place<TenantId>, u64)>) -> Vec<(Place<TenantId>, u64)> {
    sides.sort_by_key(|side| std::cmp::Reverse(side.1));
    let rest: u64 = sides.iter().skip(NAMED_MAX).map(|side| side.1).sum();
    sides.truncate(NAMED_MAX);
    if rest > 0 {
        sides.push((Place::Others, rest));
    }
    sides
}

fn divided(amount: Pages, sides: &[(Place<TenantId>, u64)]) -> Vec<Move<TenantId>> {
    if sides.is_empty() {
        return Vec::new();
    }
    let part = |(n, side): (usize, &(Place<TenantId>, u64))| Part {
        id: TenantId(n as u16),
        weight: side.1,
    };
    let parts: Vec<Part> = sides.iter().enumerate().map(part).collect();
    let amounts = apportion(amount.0, &parts);
    let made = sides.iter().zip(amounts).map(|((place, _), pages)| Move {
        place: place.clone(),
        pages: Pages(pages),
    });
    made.filter(|one| one.pages.0 > 0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn standing(tenants: &[(u16, u64)], free: u64) -> Standing {
        let tenant = |&(id, pages): &(u16, u64)| (TenantId(id), Pages(pages));
        Standing {
            tenants: tenants.iter().map(tenant).collect(),
            free: Pages(free),
            over: Pages(0),
        }
    }

    /// The index took a block: there is less for tenants, who give it up a moment later. Only the first of these is the host's.
    #[test]
    fn what_is_given_up_late_went_to_nobody_but_once() {
        let full = standing(&[(1, 100)], 0);
        let late = Standing {
            over: Pages(8),
            ..full.clone()
        };
        let given = standing(&[(1, 92)], 0);
        assert_eq!(told(1, &full, &given), [(Place::Host, 8)]);
        assert_eq!(told(1, &late, &given), [(Place::Free, 8)]);
    }

    fn told(id: u16, before: &Standing, after: &Standing) -> Vec<(Place<u16>, u64)> {
        let of = |standing: &Standing| -> u64 {
            let own = standing.tenants.iter().find(|tenant| tenant.0.0 == id);
            own.map_or(0, |tenant| tenant.1.0)
        };
        let (had, has) = (of(before), of(after));
        let moves = Moves::between(before, after);
        let made = match has < had {
            true => moves.of_loss(Pages(had - has)),
            false => moves.of_gain(Pages(has - had)),
        };
        let plain = |place| match place {
            Place::Tenant(TenantId(id)) => Place::Tenant(id),
            Place::Free => Place::Free,
            Place::Host => Place::Host,
            Place::Others => Place::Others,
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
            told(1, &before, &after),
            [(Place::Tenant(2), 24), (Place::Free, 16)]
        );
        assert_eq!(
            told(3, &before, &after),
            [(Place::Tenant(2), 6), (Place::Free, 4)]
        );
        assert_eq!(
            told(2, &before, &after),
            [(Place::Tenant(1), 24), (Place::Tenant(3), 6)]
        );
    }

    #[test]
    fn the_arena_gives_to_the_host_and_takes_from_it() {
        let before = standing(&[(1, 100), (2, 50)], 0);
        let after = standing(&[(1, 60), (2, 70)], 0);
        assert_eq!(
            told(1, &before, &after),
            [(Place::Tenant(2), 20), (Place::Host, 20)]
        );
        assert_eq!(
            told(1, &after, &before),
            [(Place::Tenant(2), 20), (Place::Host, 20)]
        );
        assert_eq!(told(1, &before, &before), []);
        let newcomer = standing(&[(1, 60), (2, 50), (3, 40)], 0);
        assert_eq!(told(3, &before, &newcomer), [(Place::Tenant(1), 40)]);
    }

    #[test]
    fn who_got_little_is_told_together() {
        let before: Vec<(u16, u64)> = (1..=9).map(|id| (id, 100)).collect();
        let after: Vec<(u16, u64)> = (1..=9).map(|id| (id, 100 + u64::from(id))).collect();
        let after = [&after[1..], &[(10, 0)]].concat();
        let told = told(1, &standing(&before, 0), &standing(&after, 0));
        // 44 pages were got, and the arena has 56 less.
        let ought = [
            (Place::Host, 56),
            (Place::Tenant(9), 9),
            (Place::Tenant(8), 8),
            (Place::Tenant(7), 7),
            (Place::Tenant(6), 6),
            (Place::Others, 14),
        ];
        assert_eq!(told, ought);
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
                let sum: u64 = told(id, &old, &new).iter().map(|one| one.1).sum();
                prop_assert_eq!(sum, before[n].abs_diff(after[n]));
            }
        }
    }
}
