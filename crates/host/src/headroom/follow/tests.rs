use std::sync::atomic::{AtomicU64, Ordering};

use sublet_store::{Store, StoreSettings};

use super::*;
use crate::headroom::ReadError;

/// A host whose programs take what the test says; the arena's own memory counts as used.
struct Replay {
    store: Arc<Store>,
    memory: Bytes,
    programs: Arc<AtomicU64>,
}

impl ReadHost for Replay {
    fn read(&mut self, at: Duration) -> Result<HostFigures, ReadError> {
        let used = Bytes(self.programs.load(Ordering::Relaxed)) + self.store.figures().held;
        Ok(HostFigures {
            at,
            memory: self.memory,
            free: self.memory - used,
            ..HostFigures::default()
        })
    }
}

struct Scene {
    follower: Follower<Replay>,
    store: Arc<Store>,
}

const MEMORY: Bytes = Bytes::mib(256);
/// A quarter of the memory.
const RESERVE: Bytes = Bytes::mib(64);

impl Scene {
    fn new() -> Scene {
        let store = Store::new(StoreSettings {
            capacity: MEMORY,
            limit: Bytes::ZERO,
            item_max: Bytes::mib(1),
            seed: 7,
            evicts: true,
        })
        .expect("a store");
        let programs = Arc::new(AtomicU64::new(0));
        let host = Replay {
            store: Arc::clone(&store),
            memory: MEMORY,
            programs,
        };
        let worker = store.worker().expect("a worker");
        Scene {
            follower: Follower::new(host, worker, Clock::start(), Settings::default()),
            store,
        }
    }
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_first_turn_sets_the_limit_to_all_but_the_reserve() {
    let mut scene = Scene::new();
    scene.follower.turn(at(0));
    assert_eq!(scene.store.figures().limit, MEMORY - RESERVE);
}
