//! One value for each peer, by its number. A number is never another peer's while the daemon runs.

use std::sync::OnceLock;

use sublet_lend::ids::PeerId;
use sublet_lend::node::PEER_NUMBERS_MAX;

/// The values that are made at once.
const CHUNK: usize = 64;

/// One value for each peer. It is made when somebody first asks for it, with those of its neighbours. Nobody waits for
/// a lock, because threads that carry pages count here.
#[derive(Debug)]
pub(super) struct ByPeer<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
}

impl<T> Default for ByPeer<T> {
    fn default() -> ByPeer<T> {
        let chunks = (0..PEER_NUMBERS_MAX / CHUNK).map(|_| OnceLock::new());
        ByPeer {
            chunks: chunks.collect(),
        }
    }
}

impl<T: Default> ByPeer<T> {
    /// That of one peer. The number is one that the node gave out, so that it is below the bound.
    pub(super) fn of(&self, peer: PeerId) -> &T {
        let slot = usize::from(peer.0) % PEER_NUMBERS_MAX;
        let chunk =
            self.chunks[slot / CHUNK].get_or_init(|| (0..CHUNK).map(|_| T::default()).collect());
        &chunk[slot % CHUNK]
    }

    /// All that were made.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn each_peer_has_its_own_value_and_only_neighbours_are_made() {
        let values = ByPeer::<AtomicU32>::default();
        assert_eq!(values.all().count(), 0);
        let last = PEER_NUMBERS_MAX as u16 - 1;
        for peer in [0, 1, CHUNK as u16, last] {
            values
                .of(PeerId(peer))
                .store(u32::from(peer) + 1, Ordering::Relaxed);
        }
        for peer in [0, 1, CHUNK as u16, last] {
            let value = values.of(PeerId(peer)).load(Ordering::Relaxed);
            assert_eq!(value, u32::from(peer) + 1);
        }
        assert_eq!(values.all().count(), 3 * CHUNK);
    }
}
