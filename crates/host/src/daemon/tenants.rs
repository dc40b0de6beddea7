//! Tenants that their owner adds and removes.

use std::time::Duration;

use parking_lot::MutexGuard;
use sublet_client::messages::{
    AddTenant, ChangeTenant, Lasts, Limit, TenantStatus, Tenants, VERSION,
};
use sublet_frontends::backend::Backend;
use sublet_store::{TenantError, TenantFigures};
use sublet_types::{Bytes, EvictionKind, TenantId, TenantName, TenantSettings};

use super::Daemon;
use super::changes::Turn;
use super::declined::Declined;
use crate::config::{Live, TenantChange, WEIGHT_MAX};
use crate::observe::events::{Actor, Cause, EventId};

/// How long who adds something waits for who is adding something.
const ADDING_MAX: Duration = Duration::from_secs(30);

impl Daemon {
    /// Takes the turn to add a disk or a tenant, or to remove a tenant.
    pub(super) fn begin_adding(&self) -> Result<MutexGuard<'_, ()>, Declined> {
        let turn = self.adding.try_lock_for(ADDING_MAX);
        turn.ok_or(Declined::AddingHangs)
    }

    /// All tenants.
    pub fn tenants(&self) -> Tenants {
        Tenants {
            version: VERSION,
            tenants: self.tenant_statuses(),
        }
    }

    /// One tenant.
    pub fn tenant(&self, name: &TenantName) -> Result<TenantStatus, Declined> {
        Ok(self.tenant_status(self.find(name)?))
    }

    /// Changes a tenant, and writes the change down where it lasts.
    pub fn change_tenant(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
        by: Actor,
    ) -> Result<TenantStatus, Declined> {
        let turn = self.live.turn()?;
        let TenantFigures {
            id,
            settings: before,
            ..
        } = self.find(name)?;
        let after = TenantSettings {
            name: before.name.clone(),
            weight: change.weight.unwrap_or(before.weight),
            floor: change.floor.map_or(before.floor, Limit::amount),
            ceiling: change.ceiling.map_or(before.ceiling, Limit::amount),
        };
        self.check_grants(&after)?;
        let store = &self.backend.store;
        let refused = |source| Declined::Change {
            name: name.clone(),
            source,
        };
        // What is over a lower ceiling is evicted at once, and no refusal would bring it back.
        store.check_tenant(id, &after).map_err(refused)?;
        if change.lasts == Lasts::Always {
            self.keep(&turn, name, change)?;
        }
        store.set_tenant(id, after.clone()).map_err(refused)?;
        self.evict_by(id, change.eviction);
        if let Some(service) = self.service(id) {
            let ceiling = after.ceiling.or(self.config.arena.ceiling);
            service.allowed.set(ceiling);
        }
        let said =
            |limit: Option<Bytes>| limit.map_or("none".to_owned(), |limit| limit.to_string());
        let (floor, ceiling) = (said(after.floor), said(after.ceiling));
        let changed = Cause::new(EventId::TenantChanged, change.lasts.into()).to_tenant(name);
        self.events.post(changed.by(by).saying(format_args!(
            "weight {}, floor {floor}, ceiling {ceiling}, eviction {}",
            after.weight.0,
            store.eviction(id)
        )));
        drop(turn);
        self.tenant(name)
    }

    /// That a config could grant it.
    pub(super) fn check_grants(&self, granted: &TenantSettings) -> Result<(), Declined> {
        if !(1..=WEIGHT_MAX).contains(&granted.weight.0) {
            return Err(Declined::Weight);
        }
        let floor = granted.floor.filter(|floor| *floor > Bytes::ZERO);
        for (limit, amount) in [("floor", floor), ("ceiling", granted.ceiling)] {
            let amount = amount.map_or(Ok(Bytes::ZERO), Bytes::of_a_block_or_more);
            amount.map_err(|source| Declined::BelowBlock {
                name: granted.name.clone(),
                limit,
                source,
            })?;
        }
        let arena = self.config.arena.ceiling.unwrap_or(Bytes(u64::MAX));
        let Some(floor) = granted.floor else {
            return Ok(());
        };
        if floor > arena {
            return Err(Declined::Floor { arena });
        }
        let tenants = self.backend.store.tenants().into_iter();
        let others = tenants.filter(|tenant| tenant.settings.name != granted.name);
        let floors: Bytes = others.filter_map(|tenant| tenant.settings.floor).sum();
        let together = floors + floor;
        match together > arena {
            true => Err(Declined::Floors { together, arena }),
            false => Ok(()),
        }
    }

    /// Writes a change down, if the daemon could start with it again.
    fn keep(
        &self,
        turn: &Turn<'_>,
        name: &TenantName,
        change: &ChangeTenant,
    ) -> Result<(), Declined> {
        let change = TenantChange {
            added: false,
            weight: change.weight,
            floor: change.floor.map(Limit::amount),
            ceiling: change.ceiling.map(Limit::amount),
            eviction: change.eviction,
            listen: None,
        };
        let mut kept = self.live.now().change(name);
        kept.take(&change);
        let written = self
            .written
            .tenants
            .iter()
            .find(|tenant| tenant.settings.name == *name);
        let written = written.map(|tenant| &tenant.settings);
        let floor = kept
            .floor
            .unwrap_or(written.and_then(|settings| settings.floor));
        let ceiling = kept
            .ceiling
            .unwrap_or(written.and_then(|settings| settings.ceiling));
        if floor
            .zip(ceiling)
            .is_some_and(|(floor, ceiling)| floor > ceiling)
        {
            let source = TenantError::FloorAboveCeiling;
            return Err(Declined::Change {
                name: name.clone(),
                source,
            });
        }
        Ok(turn.keep(|live| live.with_change(name.clone(), &change))?)
    }

    /// Adds a tenant for disks to come, and writes it down where it lasts.
    pub fn add_tenant(&self, asked: &AddTenant, by: Actor) -> Result<TenantStatus, Declined> {
        let name = &asked.name;
        let granted = TenantSettings {
            name: name.clone(),
            weight: asked.weight.unwrap_or_default(),
            floor: asked.floor.and_then(Limit::amount),
            ceiling: asked.ceiling.and_then(Limit::amount),
        };
        let _adding = self.begin_adding()?;
        self.check_grants(&granted)?;
        let store = &self.backend.store;
        let refused = |source| Declined::Change {
            name: name.clone(),
            source,
        };
        let id = store.add_tenant(granted).map_err(refused)?;
        if asked.lasts == Lasts::Always {
            let change = TenantChange {
                added: true,
                weight: asked.weight,
                floor: asked.floor.map(Limit::amount),
                ceiling: asked.ceiling.map(Limit::amount),
                eviction: asked.eviction,
                listen: None,
            };
            let next = |live: &Live| live.with_tenant(name.clone(), Some(change));
            let kept = self.live.keep(next);
            if let Err(error) = kept {
                self.forget_tenant(id);
                return Err(error.into());
            }
        }
        self.evict_by(id, asked.eviction);
        self.manager.look();
        let added = Cause::new(EventId::TenantAdded, asked.lasts.into());
        self.events.post(added.to_tenant(name).by(by));
        self.tenant(name)
    }

    /// Removes a tenant that nobody uses, and writes that down where it lasts. Says who remains.
    pub fn remove_tenant(
        &self,
        name: &TenantName,
        lasts: Lasts,
        by: Actor,
    ) -> Result<Tenants, Declined> {
        let _adding = self.begin_adding()?;
        let id = self.find(name)?.id;
        if let Some(by) = self.use_of(name, id) {
            let name = name.clone();
            return Err(Declined::TenantInUse { name, by });
        }
        if lasts == Lasts::Always {
            self.live
                .keep(|live| live.with_tenant(name.clone(), None))?;
        }
        self.forget_tenant(id);
        let removed = Cause::new(EventId::TenantRemoved, lasts.into());
        self.events.post(removed.to_tenant(name).by(by));
        Ok(self.tenants())
    }

    /// Gives a tenant's pages another eviction, if one is said.
    pub(super) fn evict_by(&self, id: TenantId, eviction: Option<EvictionKind>) {
        let (store, now) = (&self.backend.store, self.backend.clock.now());
        if let Some(kind) = eviction.filter(|kind| *kind != store.eviction(id)) {
            store.set_eviction(id, kind, now);
        }
    }

    /// Ends a tenant. Whoever followed it by its number has forgotten it when somebody else is given that.
    pub(super) fn forget_tenant(&self, id: TenantId) {
        forget(&self.backend, id, || self.manager.look());
    }

    /// Who or what has a tenant, if anybody does.
    fn use_of(&self, name: &TenantName, id: TenantId) -> Option<String> {
        let service = self
            .service(id)
            .filter(|service| !service.listen.is_empty());
        if let Some(service) = service {
            return Some(format!("it listens at {}", service.listen.join(" ")));
        }
        let disks = self.disks.disks_of(name);
        if !disks.is_empty() {
            return Some(format!("it has disks: {}", disks.join(", ")));
        }
        let mut written = self.written.tenants.iter();
        if written.any(|tenant| tenant.settings.name == *name) {
            return Some("the config file names it".to_owned());
        }
        let pools = self.backend.store.pools(id).len();
        (pools > 0).then(|| format!("it has pools: {pools}"))
    }
}

/// Between its end and its number's next use all that follow it `look`.
fn forget(backend: &Backend, id: TenantId, look: impl FnOnce()) {
    backend.store.remove_tenant(id);
    look();
    backend.ledger.forget(id);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sublet_frontends::tenancy::{Clock, Doorman, Ledger};
    use sublet_store::{PageSettings, Store, StoreSettings};
    use sublet_types::{Bytes, Weight};

    use super::*;

    fn backend() -> Backend {
        let store = Store::new(StoreSettings {
            capacity: Bytes::mib(16),
            limit: Bytes::mib(16),
            item_max: Bytes::mib(1),
            seed: 5,
            evicts: true,
            pages: PageSettings::default(),
        });
        Backend {
            store: store.expect("a store"),
            clock: Clock::start(),
            ledger: Arc::new(Ledger::default()),
        }
    }

    fn add(backend: &Backend, name: &str) -> TenantId {
        let settings = TenantSettings {
            name: name.parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        };
        backend.store.add_tenant(settings).expect("a place")
    }

    #[test]
    fn what_a_removed_tenant_counted_is_not_the_next_ones() {
        let backend = backend();
        let doorman = Doorman::new(&backend.store, backend.clock, &backend.ledger);
        let doorman = doorman.expect("a worker");
        let gets = |id| backend.ledger.total(id).cmd_get.get();
        let first = add(&backend, "first");
        doorman.open(first).counters().cmd_get.add(7);
        assert_eq!(gets(first), 7);
        forget(&backend, first, || assert_eq!(gets(first), 7));
        assert_eq!(gets(first), 0);
        // Another is given its number once nobody can have a hold of it.
        let later = |n| add(&backend, &format!("t{n}"));
        assert!((0..64).map(later).all(|id| gets(id) == 0));
    }
}
