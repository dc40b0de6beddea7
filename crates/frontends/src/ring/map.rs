//! The pools that a connection may name: only those that it made or joined.

use std::collections::HashMap;

use parking_lot::Mutex;
use sublet_client::ring::{Fault, Refusal};
use sublet_types::{PoolFlags, PoolId, SharedName};

use super::{NAMES_MAX, POOLS_MAX};

/// A connection's pools.
#[derive(Debug, Default)]
pub(super) struct ConnectionPools(Vec<NamedPool>);

/// A pool that a connection may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedPool {
    pub(super) pool: PoolId,
    pub(super) shared: Option<SharedName>,
}

impl ConnectionPools {
    /// Checks that there is room for one more pool.
    pub(super) fn check_room(&self) -> Result<(), Refusal> {
        match self.0.len() < POOLS_MAX {
            true => Ok(()),
            false => Err(Refusal::TooManyPools),
        }
    }

    /// The pool that this connection joined under that name.
    pub(super) fn joined(&self, shared: Option<SharedName>) -> Option<PoolId> {
        let known = self.0.iter().find(|known| known.shared == shared)?;
        known.shared.map(|_| known.pool)
    }

    /// Adds a pool that the connection made or joined.
    pub(super) fn insert(&mut self, pool: PoolId, shared: Option<SharedName>) {
        self.0.push(NamedPool { pool, shared });
    }

    /// Checks that the connection may name a handle.
    pub(super) fn check(&self, pool: PoolId) -> Result<(), Fault> {
        match self.0.iter().any(|known| known.pool == pool) {
            true => Ok(()),
            false => Err(Fault::Pool),
        }
    }

    /// Removes a pool, if the connection may name it.
    pub(super) fn remove(&mut self, pool: PoolId) -> Result<NamedPool, Fault> {
        let place = self.0.iter().position(|known| known.pool == pool);
        Ok(self.0.swap_remove(place.ok_or(Fault::Pool)?))
    }

    /// Removes all pools.
    pub(super) fn drain(&mut self) -> Vec<NamedPool> {
        std::mem::take(&mut self.0)
    }
}

/// The shared pools that a listener's connections have joined, by name. The tenant is one sharer, however many
/// connections it has. They all use one handle. The handle stays when connections end, and goes when the last
/// connection that uses it leaves the pool.
#[derive(Debug, Default)]
pub struct JoinedPools(Mutex<HashMap<SharedName, JoinedPool>>);

#[derive(Clone, Copy, Debug)]
struct JoinedPool {
    pool: PoolId,
    connections: u32,
}

impl JoinedPools {
    /// The pool of that name, for one more connection. It calls `join` if no connection has the pool yet.
    pub(super) fn join(
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
        names.insert(name, JoinedPool { pool, connections });
        Ok(pool)
    }

    /// Notes that a connection that used the pool has ended.
    pub(super) fn disconnect(&self, name: SharedName) {
        if let Some(named) = self.0.lock().get_mut(&name) {
            named.connections -= 1;
        }
    }

    /// Notes that a connection leaves the pool. If no other connection uses it, `leave` gives the handle up.
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

/// Pools from a save file that wait for their program. The first program that makes a private pool of the same flags
/// gets the first such pool, with its pages.
#[derive(Debug, Default)]
pub struct UnclaimedPools(Mutex<Vec<(PoolId, PoolFlags)>>);

impl UnclaimedPools {
    /// Adds a pool that waits.
    pub fn add(&self, pool: PoolId, flags: PoolFlags) {
        self.0.lock().push((pool, flags));
    }

    /// How many pools wait.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns whether no pool waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first pool of these flags. It waits no longer.
    pub(super) fn claim(&self, flags: PoolFlags) -> Option<PoolId> {
        let mut waiting = self.0.lock();
        let place = waiting.iter().position(|(_, of)| *of == flags)?;
        Some(waiting.remove(place).0)
    }

    /// Takes all pools. None waits any longer.
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
        let (restored, flags) = (UnclaimedPools::default(), PoolFlags::default());
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
        let mut pools = ConnectionPools::default();
        pools.insert(pool(1), None);
        assert_eq!(pools.check(pool(1)), Ok(()));
        let older = PoolId {
            generation: 0,
            ..pool(1)
        };
        assert_eq!(pools.check(older), Err(Fault::Pool));
        assert_eq!(pools.remove(older), Err(Fault::Pool));
        assert!(pools.remove(pool(1)).is_ok());
        assert_eq!(pools.check(pool(1)), Err(Fault::Pool));
    }

    #[test]
    fn a_connection_joins_a_name_once() {
        let mut pools = ConnectionPools::default();
        pools.insert(pool(1), None);
        pools.insert(pool(2), Some(SharedName(9)));
        assert_eq!(pools.joined(Some(SharedName(9))), Some(pool(2)));
        assert_eq!(pools.joined(Some(SharedName(8))), None);
        assert_eq!(pools.joined(None), None);
        assert_eq!(pools.drain().len(), 2);
        assert_eq!(pools.check(pool(2)), Err(Fault::Pool));
    }

    #[test]
    fn a_name_outlives_its_connections_until_the_last_lets_go() {
        let (names, name) = (JoinedPools::default(), SharedName(9));
        assert_eq!(names.join(name, || Ok(pool(1))), Ok(pool(1)));
        let joined = |names: &JoinedPools| names.join(name, || panic!("it is there"));
        names.disconnect(name);
        assert_eq!(joined(&names), Ok(pool(1)));
        assert_eq!(joined(&names), Ok(pool(1)));
        assert_eq!(names.leave(name, || Some(())), None, "another uses it");
        assert_eq!(names.leave(name, || Some(())), Some(()));
        assert_eq!(names.join(name, || Ok(pool(2))), Ok(pool(2)));
        let denied = names.join(SharedName(8), || Err(Refusal::NotPermitted));
        assert_eq!(denied, Err(Refusal::NotPermitted));
        for other in 100..100 + NAMES_MAX as u128 - 1 {
            assert_eq!(names.join(SharedName(other), || Ok(pool(3))), Ok(pool(3)));
        }
        let full = names.join(SharedName(1), || panic!("there is no room"));
        assert_eq!(full, Err(Refusal::TooManyPools));
    }

    #[test]
    fn pools_are_bounded() {
        let mut pools = ConnectionPools::default();
        for slot in 0..POOLS_MAX as u32 {
            assert_eq!(pools.check_room(), Ok(()));
            pools.insert(pool(slot), None);
        }
        assert_eq!(pools.check_room(), Err(Refusal::TooManyPools));
    }
}
