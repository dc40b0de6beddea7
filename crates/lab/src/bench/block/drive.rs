//! Reads over vhost-user-blk, by the driver that the frontend is tested with.

use std::time::{Duration, Instant};

use sublet_sim::chance::Chance;
use sublet_types::{Bytes, PAGE_BYTES};
use sublet_vhost_driver::{Ask, DriveError, Driver, Layout};

use super::error::BlockError;
use super::served::Served;

/// Requests at a time.
pub(super) const DEPTHS: [u16; 2] = [1, 32];

const SECTORS: u64 = PAGE_BYTES / 512;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a round came to.
pub(super) struct Driven {
    pub(super) requests: f64,
    pub(super) per_second: f64,
}

/// Reads pages at random places for a while.
pub(super) fn reads(
    served: &Served,
    depth: u16,
    size: Bytes,
    time: Duration,
) -> Result<Driven, BlockError> {
    let read = drive(served, depth, size, time);
    read.map_err(|error| BlockError::Drive {
        program: served.program,
        why: error.to_string(),
    })
}

fn drive(served: &Served, depth: u16, size: Bytes, time: Duration) -> Result<Driven, DriveError> {
    let mut driver = Driver::new(Layout {
        slots: depth,
        ..Layout::default()
    })?;
    let path = served.vhost_user.clone().unwrap_or_default();
    driver.connect(&path)?;
    let mut chance = Chance::seeded(7);
    let queue = &mut driver.queues[0];
    let began = Instant::now();
    let mut done = 0.0;
    while began.elapsed() < time {
        while let Some(slot) = queue.vacant() {
            let sector = chance.below(size.0 / PAGE_BYTES) * SECTORS;
            let bytes = PAGE_BYTES as u32;
            queue.submit(slot, Ask::Read { sector, bytes })?;
        }
        queue.kick()?;
        queue.wait(PATIENCE)?;
        while let Some(answer) = queue.reap()? {
            done += f64::from(u8::from(answer.status == 0));
        }
    }
    Ok(Driven {
        requests: done,
        per_second: done / began.elapsed().as_secs_f64(),
    })
}
