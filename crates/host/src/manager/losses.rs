//! Finds which tenants hold less than before, and why. Under policies without targets a tenant loses memory although
//! nothing was decided about it, and its owner asks all the same.

use std::collections::HashMap;
use std::sync::Arc;

use sublet_policy::explain::{Loss, LossCause};
use sublet_policy::transfers::{Holder, MemoryHoldings, MemoryTransfer, MemoryTransfers};
use sublet_types::{Pages, Second, Snapshot, TenantId, TenantSnapshot};

use crate::headroom::{ManualReleaseList, TenantReleaseLoss};

/// A loss is reported from this part of what the tenant held. Smaller losses come and go with every put.
const TOLD_FROM_ONE_IN: u64 = 64;

/// Follows what tenants hold.
#[derive(Debug, Default)]
pub(super) struct LossTracker {
    marks: HashMap<TenantId, LossBaseline>,
    /// The memory for all tenants at the last snapshot.
    last_total: Pages,
}

/// The most that a tenant held since its last reported loss.
#[derive(Clone, Debug)]
struct LossBaseline {
    at: Second,
    held: Pages,
    /// The memory for all tenants then, or one snapshot earlier, because tenants give way after the limit has sunk.
    total: Pages,
    /// What the other tenants held.
    others: Pages,
    /// The tenant's pages and items that had been evicted.
    evicted: u64,
    /// What every tenant held.
    holdings: Arc<MemoryHoldings>,
}

/// What a tenant lost, and where that went.
pub(super) type TenantLoss = (TenantId, Loss, Vec<MemoryTransfer<TenantId>>);

impl LossTracker {
    /// Returns which tenants have lost memory since the last snapshot, in the snapshot's order. `by_hand` is what
    /// releases by hand took meanwhile. `evicted` counts a tenant's evicted pages and items.
    pub(super) fn losses_since(
        &mut self,
        snapshot: &Snapshot,
        by_hand: &ManualReleaseList,
        evicted: impl Fn(TenantId) -> u64,
    ) -> Vec<TenantLoss> {
        let held: Pages = snapshot.tenants.iter().map(|tenant| tenant.held).sum();
        let released = by_hand.lost();
        let mut before = std::mem::take(&mut self.marks);
        let holdings = Arc::new(holdings(snapshot));
        let mut lost = Vec::new();
        for tenant in &snapshot.tenants {
            let now = LossBaseline {
                at: snapshot.at,
                held: tenant.held,
                total: snapshot.total.max(self.last_total),
                others: Pages(held.0.saturating_sub(tenant.held.0)),
                evicted: evicted(tenant.id),
                holdings: Arc::clone(&holdings),
            };
            let taken = by_hand.of_tenant(tenant.id);
            let own = taken.map_or(Pages(0), |taken| taken.lost);
            let mut mark = before.remove(&tenant.id).unwrap_or_else(|| now.clone());
            // The tenant may have gained since the last snapshot before some of that was released.
            mark.held = mark.held.max(Pages(tenant.held.0 + own.0));
            lost.extend(taken.map(|taken| mark.release(tenant.id, taken, snapshot.at)));
            let others = Pages(released.0 - own.0);
            mark.others.0 = mark.others.0.saturating_sub(others.0);
            let less = Pages(mark.held.0.saturating_sub(tenant.held.0));
            let is_told = less.0 > 0 && less.0 * TOLD_FROM_ONE_IN >= mark.held.0;
            if is_told {
                let moves = MemoryTransfers::between(&mark.holdings, &holdings);
                let loss = loss(&mark, &now, tenant, snapshot);
                lost.push((tenant.id, loss, moves.of_loss(less)));
            }
            let kept = if less.0 > 0 && !is_told { mark } else { now };
            self.marks.insert(tenant.id, kept);
        }
        self.last_total = snapshot.total;
        lost
    }
}

impl LossBaseline {
    /// Takes a release by hand of the tenant into account. Returns what there is to report of it.
    fn release(&mut self, id: TenantId, taken: TenantReleaseLoss, at: Second) -> TenantLoss {
        let before = self.held;
        let after = Pages(before.0 - taken.lost.0);
        self.held = after;
        let by = Pages::of(taken.released);
        let loss = Loss {
            before,
            after,
            secs: at.0.saturating_sub(self.at.0),
            cause: LossCause::Released { by },
        };
        let to_host = MemoryTransfer {
            place: Holder::Host,
            pages: taken.lost,
        };
        (id, loss, vec![to_host])
    }
}

fn holdings(snapshot: &Snapshot) -> MemoryHoldings {
    let held: Pages = snapshot.tenants.iter().map(|tenant| tenant.held).sum();
    let tenants = snapshot.tenants.iter();
    MemoryHoldings {
        tenants: tenants.map(|tenant| (tenant.id, tenant.held)).collect(),
        free: snapshot.free,
        over: Pages((held.0 + snapshot.free.0).saturating_sub(snapshot.total.0)),
    }
}

fn loss(
    mark: &LossBaseline,
    now: &LossBaseline,
    tenant: &TenantSnapshot,
    snapshot: &Snapshot,
) -> Loss {
    Loss {
        before: mark.held,
        after: tenant.held,
        secs: snapshot.at.0.saturating_sub(mark.at.0),
        cause: cause(mark, now, tenant, snapshot),
    }
}

/// What caused the loss: the first of these that holds.
fn cause(
    mark: &LossBaseline,
    now: &LossBaseline,
    tenant: &TenantSnapshot,
    snapshot: &Snapshot,
) -> LossCause {
    let given = (mark.held.0 + mark.others.0).saturating_sub(now.held.0 + now.others.0);
    let by = Pages(given);
    let gained = Pages(now.others.0.saturating_sub(mark.others.0));
    match (tenant.ceiling, tenant.target) {
        (Some(ceiling), _) if mark.held > ceiling => LossCause::OverCeiling { ceiling },
        (_, Some(target)) if mark.held > target => LossCause::OverTarget { target },
        _ if mark.total > snapshot.total && by.0 > 0 => LossCause::ArenaShrank {
            by,
            to: snapshot.total,
        },
        _ if now.evicted == mark.evicted => LossCause::LetGo,
        _ if gained.0 > 0 => LossCause::GaveWay { gained },
        _ => LossCause::MadeRoom,
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::Weight;

    use super::*;
    use crate::observe::events::Actor;

    fn snapshot(at: u32, total: u64, held: [u64; 2], target: Option<u64>) -> Snapshot {
        let tenant = |(id, held): (u16, u64)| TenantSnapshot {
            id: TenantId(id),
            weight: Weight(100),
            floor: None,
            ceiling: None,
            held: Pages(held),
            used: Pages(held),
            target: target.map(Pages),
            puts: 0,
            puts_succeeded: 0,
            puts_ever: 0,
            puts_failed_ever: 0,
            gets: 0,
            hits: 0,
            flushes: 0,
            shared: Pages(0),
            curve: None,
        };
        Snapshot {
            at: Second(at),
            total: Pages(total),
            tenants: (1..).zip(held).map(tenant).collect(),
            ..Snapshot::default()
        }
    }

    /// What is reported at the second snapshot, after a first one. Between them some tenant's memory was evicted.
    fn told(first: Snapshot, second: &Snapshot) -> Vec<(u16, LossCause)> {
        let mut losses = LossTracker::default();
        assert_eq!(
            losses.losses_since(&first, &ManualReleaseList::default(), |_| 3),
            []
        );
        let told = losses
            .losses_since(second, &ManualReleaseList::default(), |_| 4)
            .into_iter();
        told.map(|(id, loss, _)| (id.0, loss.cause)).collect()
    }

    /// Others grew meanwhile, but nothing of the tenant was evicted: it let go itself.
    #[test]
    fn who_let_go_itself_gave_way_to_nobody() {
        let mut losses = LossTracker::default();
        losses.losses_since(
            &snapshot(1, 1000, [500, 500], None),
            &ManualReleaseList::default(),
            |_| 3,
        );
        let second = snapshot(2, 1000, [400, 600], None);
        let lost = losses.losses_since(&second, &ManualReleaseList::default(), |_| 3);
        let [(id, loss, moves)] = &lost[..] else {
            panic!("one loss: {lost:?}");
        };
        assert_eq!((id.0, loss.cause), (1, LossCause::LetGo));
        let moved = MemoryTransfer {
            place: Holder::Tenant(TenantId(2)),
            pages: Pages(100),
        };
        assert_eq!(moves, &[moved]);
    }

    #[test]
    fn each_cause_is_told() {
        let before = |target| snapshot(1, 1000, [500, 500], target);
        let gave_way = snapshot(2, 1000, [400, 600], None);
        let gained = Pages(100);
        assert_eq!(
            told(before(None), &gave_way),
            [(1, LossCause::GaveWay { gained })]
        );
        let shrank = LossCause::ArenaShrank {
            by: Pages(200),
            to: Pages(300),
        };
        // The limit also sinks by what the arena did not hold. That is no tenant's loss.
        let smaller = snapshot(2, 300, [400, 400], None);
        assert_eq!(told(before(None), &smaller), [(1, shrank), (2, shrank)]);
        let target = Pages(450);
        let over = snapshot(2, 1000, [450, 500], Some(450));
        assert_eq!(
            told(before(Some(450)), &over),
            [(1, LossCause::OverTarget { target })]
        );
        let mut lowered = snapshot(2, 1000, [300, 500], None);
        let ceiling = Pages(250);
        lowered.tenants[0].ceiling = Some(ceiling);
        assert_eq!(
            told(before(None), &lowered),
            [(1, LossCause::OverCeiling { ceiling })]
        );
        let alone = snapshot(2, 1000, [300, 500], None);
        assert_eq!(told(before(None), &alone), [(1, LossCause::MadeRoom)]);
    }

    /// The same holds under a target, and with the amount that was released, not with what else left meanwhile.
    #[test]
    fn what_was_released_by_hand_is_told_as_such_and_the_rest_as_what_it_is() {
        let mut losses = LossTracker::default();
        let first = snapshot(1, 1000, [500, 400], Some(450));
        losses.losses_since(&first, &ManualReleaseList::default(), |_| 0);
        let mut taken = ManualReleaseList::default();
        taken.begin(Actor::Daemon);
        let lost = [(TenantId(1), Pages(100)), (TenantId(2), Pages(1))];
        taken.add(Pages(120).bytes(), lost.into_iter());
        // Meanwhile the second tenant took 51 from the others.
        let second = snapshot(3, 880, [349, 450], Some(450));
        let lost = losses.losses_since(&second, &taken, |_| 1);
        let told = lost.iter().map(|(id, loss, moves)| {
            let moved: u64 = moves.iter().map(|one| one.pages.0).sum();
            (id.0, loss.before.0, loss.after.0, loss.cause, moved)
        });
        let by = Pages(120);
        let released = LossCause::Released { by };
        let gave_way = LossCause::GaveWay { gained: Pages(51) };
        let [first, rest, small] = &told.collect::<Vec<_>>()[..] else {
            panic!("three losses: {lost:?}");
        };
        assert_eq!(first, &(1, 500, 400, released, 100));
        assert_eq!((rest.0, rest.1, rest.2, rest.3), (1, 400, 349, gave_way));
        assert_eq!(small, &(2, 451, 450, released, 1));
        // The loss is reported once.
        assert_eq!(
            losses.losses_since(&second, &ManualReleaseList::default(), |_| 1),
            []
        );
    }

    #[test]
    fn small_losses_are_told_when_they_have_added_up() {
        let mut losses = LossTracker::default();
        let told: Vec<Loss> = (0..20)
            .flat_map(|n| {
                let now = snapshot(n, 1000, [500 - u64::from(n), 0], None);
                losses.losses_since(&now, &ManualReleaseList::default(), |_| 0)
            })
            .map(|(_, loss, _)| loss)
            .collect();
        assert_eq!(told.len(), 2, "one for every 64th part");
        assert_eq!((told[0].before, told[0].after), (Pages(500), Pages(492)));
        assert_eq!(told[0].secs, 8);
        assert_eq!(told[1].before, Pages(492));
    }
}
