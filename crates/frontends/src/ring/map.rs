//! The pools that a connection may name: those that it made or joined, and no others.

use std::collections::HashMap;

use parking_lot::Mutex;
use sublet_client::ring::{Fault, Refusal};
use sublet_types::{PoolFlags, PoolId, SharedName};

use super::{NAMES_MAX, POOLS_MAX};

/// A connection's pools.
#[derive(Debug, Default)]
pub(super) struct Pools(Vec<Known>);

/// A pool that a connection may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) pool: PoolId,
    pub(super) shared: Option<SharedName>,
}

impl Pools {
    /// That there is room for one more.
    pub(super) fn check_room(&self) -> Result<(), Refusal> {
        match self.0.len() < POOLS_MAX {
            true => Ok(()),
            false => Err(Refusal::TooManyPools),
        }
    }

    /// The pool that this connection knows by that name.
    pub(super) fn joined(&self, shared: Option<SharedName>) -> Option<PoolId> {
        let known = self.0.iter().find(|known| known.shared == shared)?;
        known.shared.map(|_| known.pool)
    }

    /// Enters a pool that was made or joined.
    pub(super) fn enter(&mut self, pool: PoolId, shared: Option<SharedName>) {
        self.0.push(Known { pool, shared });
    }

    /// That a handle is one of them.
    pub(super) fn check(&self, pool: PoolId) -> Result<(), Fault> {
        match self.0.iter().any(|known| known.pool == pool) {
            true => Ok(()),
            false => Err(Fault::Pool),
        }
    }

    /// Strikes a pool out, if it was one of them.
    pub(super) fn strike(&mut self, pool: PoolId) -> Result<Known, Fault> {
        let place = self.0.iter().position(|known| known.pool == pool);
        Ok(self.0.swap_remove(place.ok_or(Fault::Pool)?))
    }

    /// Strikes all out.
    pub(super) fn strike_all(&mut self) -> Vec<Known> {
        std::mem::take(&mut self.0)
    }
}

/// The shared pools that a listener's connections have joined, by name. The tenant is one sharer, however many
/// connections it has: they use one handle, which stays when they end, and ends when the last that uses it
/// says so.
#[derive(Debug, Default)]
pub struct Names(Mutex<HashMap<SharedName, Named>>);

#[derive(Clone, Copy, Debug)]
struct Named {
    pool: PoolId,
    connections: u32,
}

impl Names {
    /// The pool of that name for one more connection; `join` is asked if none has it yet.
    pub(super) fn enter(
        &self,
        name: SharedName,
        join: impl FnOnce() -> Result<PoolId, Refusal>,
    ) -> Result<PoolId, Refusal> {
        let mut names = self.0.lock();
        if let Some(named) = names.get_mut(&name) {
            named.connections += 1;
            return Ok(named.pool);
        }
        if names.len() >= NAMES_MAX {
            return Err(Refusal::TooManyPools);
        }
        let pool = join()?;
        let connections = 1;
        names.insert(name, Named { pool, connections });
        Ok(pool)
    }

    /// A connection that used it has ended.
    pub(super) fn part(&self, name: SharedName) {
        if let Some(named) = self.0.lock().get_mut(&name) {
            named.connections -= 1;
        }
    }

    /// A connection that used it has no more use for it; if no other has either, `leave` gives the handle up.
    pub(super) fn leave<R>(
        &self,
        name: SharedName,
        leave: impl FnOnce() -> Option<R>,
    ) -> Option<R> {
        let mut names = self.0.lock();
        let named = names.get_mut(&name)?;
        named.connections -= 1;
        if named.connections > 0 {
            return None;
        }
        names.remove(&name);
        leave()
    }
}

/// Pools that came from a save file and wait for their program: whoever makes a private pool of the same flags is
/// given the first of them, with its pages.
#[derive(Debug, Default)]
pub struct Restored(Mutex<Vec<(PoolId, PoolFlags)>>);

impl Restored {
    /// One more that waits.
    pub fn add(&self, pool: PoolId, flags: PoolFlags) {
        self.0.lock().push((pool, flags));
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first of these flags, which waits no longer.
    pub(super) fn claim(&self, flags: PoolFlags) -> Option<PoolId> {
        let mut waiting = self.0.lock();
        let place = waiting.iter().position(|(_, of)| *of == flags)?;
        Some(waiting.remove(place).0)
    }

    /// All of them: none waits any longer.
    pub fn take_all(&self) -> Vec<PoolId> {
        let waiting = std::mem::take(&mut *self.0.lock());
        waiting.into_iter().map(|(pool, _)| pool).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_pools_are_given_in_their_order_and_once() {
        let (restored, flags) = (Restored::default(), PoolFlags::default());
        let persistent = PoolFlags {
            persistent: true,
            ..flags
        };
        restored.add(pool(1), persistent);
        restored.add(pool(2), flags);
        restored.add(pool(3), persistent);
        assert_eq!(restored.claim(persistent), Some(pool(1)));
        assert_eq!(restored.claim(persistent), Some(pool(3)));
        assert_eq!(restored.claim(persistent), None);
        assert_eq!(restored.take_all(), [pool(2)]);
        assert!(restored.is_empty());
    }

    fn pool(slot: u32) -> PoolId {
        PoolId {
            slot,
            generation: 1,
        }
    }

    #[test]
    fn only_pools_that_were_entered_are_known() {
        let mut pools = Pools::default();
        pools.enter(pool(1), None);
        assert_eq!(pools.check(pool(1)), Ok(()));
        let older = PoolId {
            generation: 0,
            ..pool(1)
        };
        assert_eq!(pools.check(older), Err(Fault::Pool));
        assert_eq!(pools.strike(older), Err(Fault::Pool));
        assert!(pools.strike(pool(1)).is_ok());
        assert_eq!(pools.check(pool(1)), Err(Fault::Pool));
    }

    #[test]
    fn a_connection_joins_a_name_once() {
        let mut pools = Pools::default();
        pools.enter(pool(1), None);
        pools.enter(pool(2), Some(SharedName(9)));
        assert_eq!(pools.joined(Some(SharedName(9))), Some(pool(2)));
        assert_eq!(pools.joined(Some(SharedName(8))), None);
        assert_eq!(pools.joined(None), None);
        assert_eq!(pools.strike_all().len(), 2);
        assert_eq!(pools.check(pool(2)), Err(Fault::Pool));
    }

    #[test]
    fn a_name_outlives_its_connections_until_the_last_lets_go() {
        let (names, name) = (Names::default(), SharedName(9));
        assert_eq!(names.enter(name, || Ok(pool(1))), Ok(pool(1)));
        let joined = |names: &Names| names.enter(name, || panic!("it is there"));
        names.part(name);
        assert_eq!(joined(&names), Ok(pool(1)));
        assert_eq!(joined(&names), Ok(pool(1)));
        assert_eq!(names.leave(name, || Some(())), None, "another uses it");
        assert_eq!(names.leave(name, || Some(())), Some(()));
        assert_eq!(names.enter(name, || Ok(pool(2))), Ok(pool(2)));
        let denied = names.enter(SharedName(8), || Err(Refusal::NotPermitted));
        assert_eq!(denied, Err(Refusal::NotPermitted));
        for other in 100..100 + NAMES_MAX as u128 - 1 {
            assert_eq!(names.enter(SharedName(other), || Ok(pool(3))), Ok(pool(3)));
        }
        let full = names.enter(SharedName(1), || panic!("there is no room"));
        assert_eq!(full, Err(Refusal::TooManyPools));
    }

    #[test]
    fn pools_are_bounded() {
        let mut pools = Pools::default();
        for slot in 0..POOLS_MAX as u32 {
            assert_eq!(pools.check_room(), Ok(()));
            pools.enter(pool(slot), None);
        }
        assert_eq!(pools.check_room(), Err(Refusal::TooManyPools));
    }
}
