//! Reads over vhost-user-blk, through the driver that tests the frontend.

use std::time::{Duration, Instant};

use sublet_sim::rng::SimRng;
use sublet_types::{Bytes, PAGE_BYTES};
use sublet_vhost_driver::{Driver, DriverError, DriverRequest, DriverSettings};

use super::disk_server::DiskServer;
use super::error::BlockError;

/// Requests at a time.
pub(super) const DEPTHS: [u16; 2] = [1, 32];

const SECTORS: u64 = PAGE_BYTES / 512;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results of a round.
pub(in crate::bench) struct VhostUserRound {
    pub(super) requests: f64,
    pub(super) per_second: f64,
}

/// The seed of the places.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct PlaceSeed(pub(in crate::bench) u64);

/// Reads pages at random places for a while.
pub(in crate::bench) fn reads(
    served: &DiskServer,
    depth: u16,
    size: Bytes,
    seed: PlaceSeed,
    time: Duration,
) -> Result<VhostUserRound, BlockError> {
    let read = drive(served, depth, size, seed, time);
    read.map_err(|error| BlockError::Drive {
        program: served.program,
        why: error.to_string(),
    })
}

fn drive(
    served: &DiskServer,
    depth: u16,
    size: Bytes,
    seed: PlaceSeed,
    time: Duration,
) -> Result<VhostUserRound, DriverError> {
    let mut driver = Driver::new(DriverSettings {
        slots: depth,
        ..DriverSettings::default()
    })?;
    let path = served.vhost_user.clone().unwrap_or_default();
    driver.connect(&path)?;
    let mut rng = SimRng::seeded(seed.0);
    let queue = &mut driver.queues[0];
    let began = Instant::now();
    let mut done = 0.0;
    while began.elapsed() < time {
        while let Some(slot) = queue.take_slot() {
            let sector = rng.below(size.0 / PAGE_BYTES) * SECTORS;
            let bytes = PAGE_BYTES as u32;
            queue.submit(slot, DriverRequest::Read { sector, bytes })?;
        }
        queue.kick()?;
        queue.wait(PATIENCE)?;
        while let Some(answer) = queue.reap()? {
            done += f64::from(u8::from(answer.status == 0));
        }
    }
    Ok(VhostUserRound {
        requests: done,
        per_second: done / began.elapsed().as_secs_f64(),
    })
}
