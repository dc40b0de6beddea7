//! Memory that goes from one tenant to another: what one tenant gave for another's put, and what one evicted and
//! another then took. A tenant evicts for its target or for its own puts.

use std::collections::{HashMap, VecDeque};

use sublet_policy::transfer_history::TransferHistory;
use sublet_store::TenantFigures;
use sublet_types::{Bytes, Pages, Second, TenantId};

/// What one tenant holds, and what it gave and got for puts since the start.
#[derive(Clone, Copy, Debug)]
struct TenantBalance {
    id: TenantId,
    held: Bytes,
    gave: Bytes,
    got: Bytes,
    target: Option<Bytes>,
    /// Items and pages that the tenant evicted since the start.
    evictions: u64,
}

impl TenantBalance {
    fn of(figures: &TenantFigures) -> TenantBalance {
        TenantBalance {
            id: figures.id,
            held: figures.held,
            gave: figures.gave,
            got: figures.got,
            target: figures.target,
            evictions: figures.evictions + figures.pages.tally.evictions,
        }
    }
}

/// Follows what tenants give to each other.
#[derive(Debug, Default)]
pub(super) struct MoveTracker {
    moves: TransferHistory,
    /// Each tenant's balance at the last snapshot.
    before: HashMap<TenantId, TenantBalance>,
    /// What tenants evicted and no tenant has taken yet, the oldest first.
    on_its_way: VecDeque<(TenantId, Bytes)>,
}

impl MoveTracker {
    /// Records what was moved since the last snapshot. `free` is what tenants may hold and none does.
    pub(super) fn update(&mut self, tenants: &[TenantFigures], free: Pages, now: Second) {
        let stands: Vec<TenantBalance> = tenants.iter().map(TenantBalance::of).collect();
        self.follow(&stands, free.bytes(), now);
    }

    fn follow(&mut self, stands: &[TenantBalance], free: Bytes, now: Second) {
        let mut taken = Vec::new();
        for stand in stands {
            let before = self.before.get(&stand.id).copied().unwrap_or(*stand);
            let (gave, got) = (stand.gave - before.gave, stand.got - before.got);
            self.moves.record_given(stand.id, Pages::of(gave), now);
            self.moves.record_gained(stand.id, Pages::of(got), now);
            // Beside what went for puts.
            let (had, has) = (before.held + got, stand.held + gave);
            if has > had {
                taken.push((stand.id, has - had));
            } else if stand.evictions > before.evictions
                || before.target.is_some_and(|target| before.held > target)
            {
                self.on_its_way.push_back((stand.id, had - has));
            }
        }
        for (tenant, amount) in taken {
            self.attribute(tenant, amount, now);
        }
        self.forget_beyond(free);
        self.before = stands.iter().map(|stand| (stand.id, *stand)).collect();
    }

    /// A tenant took this much of what was free: first what it gave up itself, which is no move, then what others gave
    /// up.
    fn attribute(&mut self, tenant: TenantId, amount: Bytes, now: Second) {
        let mut left = amount;
        for own in [true, false] {
            let whose = |giver: &TenantId| (*giver == tenant) == own;
            for (giver, rest) in self.on_its_way.iter_mut().filter(|(giver, _)| whose(giver)) {
                let part = left.min(*rest);
                (left, *rest) = (left - part, *rest - part);
                if !own {
                    self.moves.record_given(*giver, Pages::of(part), now);
                    self.moves.record_gained(tenant, Pages::of(part), now);
                }
            }
        }
        self.on_its_way.retain(|(_, rest)| *rest > Bytes::ZERO);
    }

    /// The host has what is no longer free and no tenant took.
    fn forget_beyond(&mut self, free: Bytes) {
        let all: Bytes = self.on_its_way.iter().map(|(_, rest)| *rest).sum();
        let mut over = all - free;
        while over > Bytes::ZERO
            && let Some((_, rest)) = self.on_its_way.front_mut()
        {
            let part = over.min(*rest);
            (over, *rest) = (over - part, *rest - part);
            if *rest == Bytes::ZERO {
                self.on_its_way.pop_front();
            }
        }
    }

    /// What was moved since the start, and what of that came back within ten minutes.
    pub(super) fn sums(&self) -> (Bytes, Bytes) {
        (self.moves.moved().bytes(), self.moves.undone().bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 200;

    /// Two tenants with what each holds and may hold in MiB. What neither holds is free, except for what the host took.
    #[derive(Default)]
    struct Host {
        movements: MoveTracker,
        gave: [u64; 2],
        evictions: [u64; 2],
        now: u32,
    }

    impl Host {
        fn update(&mut self, held: [u64; 2], targets: [u64; 2], hosts: u64) -> (u64, u64) {
            self.now += 1;
            let stand = |n: usize| TenantBalance {
                id: TenantId(n as u16),
                held: Bytes::mib(held[n]),
                gave: Bytes::mib(self.gave[n]),
                got: Bytes::mib(self.gave[1 - n]),
                target: Some(Bytes::mib(targets[n])),
                evictions: self.evictions[n],
            };
            let free = Bytes::mib(ALL - hosts - held[0] - held[1]);
            self.movements
                .follow(&[stand(0), stand(1)], free, Second(self.now));
            let (moved, undone) = self.movements.sums();
            (moved.0 >> 20, undone.0 >> 20)
        }
    }

    #[test]
    fn what_is_given_up_for_a_target_moves_when_another_takes_it() {
        let mut host = Host::default();
        assert_eq!(host.update([100, 100], [100, 100], 0), (0, 0));
        assert_eq!(
            host.update([100, 100], [60, 140], 0),
            (0, 0),
            "a target is no move"
        );
        assert_eq!(
            host.update([60, 100], [60, 140], 0),
            (0, 0),
            "nobody has it"
        );
        assert_eq!(host.update([60, 110], [60, 140], 0), (10, 0));
        assert_eq!(host.update([60, 140], [140, 60], 0), (40, 0));
        assert_eq!(host.update([60, 60], [140, 60], 0), (40, 0));
        assert_eq!(
            host.update([130, 60], [140, 60], 0),
            (110, 40),
            "and 30 beyond that"
        );
    }

    #[test]
    fn who_takes_back_what_it_gave_up_moved_nothing() {
        let mut host = Host::default();
        host.update([100, 100], [60, 100], 0);
        host.update([60, 100], [100, 100], 0);
        assert_eq!(host.update([100, 100], [100, 100], 0), (0, 0));
    }

    #[test]
    fn what_was_let_go_or_went_to_the_host_is_no_move() {
        let mut host = Host::default();
        host.update([100, 100], [100, 140], 0);
        host.update([60, 100], [100, 140], 0);
        assert_eq!(
            host.update([60, 140], [100, 140], 0),
            (0, 0),
            "it was below its target"
        );
        host.update([60, 140], [60, 100], 0);
        host.update([60, 100], [100, 100], 40);
        assert_eq!(
            host.update([100, 100], [100, 100], 0),
            (0, 0),
            "the host gave it"
        );
    }

    /// One tenant evicts for its own puts. Another takes what is free of that, and has to give it back.
    #[test]
    fn what_is_evicted_for_oneself_and_taken_by_another_is_a_move_too() {
        let mut host = Host::default();
        host.update([100, 100], [100, 100], 0);
        host.evictions[0] += 7;
        host.gave[1] += 8;
        assert_eq!(host.update([100, 100], [100, 100], 0), (16, 8));
        host.update([92, 100], [100, 100], 0);
        assert_eq!(
            host.update([92, 108], [100, 100], 0),
            (16, 8),
            "it was flushed"
        );
    }

    #[test]
    fn what_goes_for_a_put_is_a_move_at_once_and_once() {
        let mut host = Host::default();
        host.update([100, 100], [100, 100], 0);
        host.gave[0] = 8;
        assert_eq!(host.update([92, 108], [100, 100], 0), (8, 0));
        host.gave[1] = 6;
        assert_eq!(host.update([98, 102], [100, 100], 0), (14, 6));
    }
}
