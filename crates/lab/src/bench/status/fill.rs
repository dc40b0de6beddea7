//! Reads a whole disk over vhost-user-blk, so that all of it is in memory.

use std::path::Path;
use std::time::Duration;

use sublet_types::Bytes;
use sublet_vhost_driver::{Driver, DriverError, DriverQueue, DriverRequest, DriverSettings};

use super::error::StatusError;

/// Bytes of a request.
const REQUEST_BYTES: u32 = 64 << 10;

const SECTOR: u64 = 512;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a disk from its beginning to its end.
pub(super) fn read_all(socket: &Path, size: Bytes) -> Result<(), StatusError> {
    let mut driver = Driver::new(DriverSettings::default())?;
    driver.connect(socket)?;
    let queue = &mut driver.queues[0];
    let requests = size.0 / u64::from(REQUEST_BYTES);
    let (mut submitted, mut answered) = (0, 0);
    while answered < requests {
        submitted = submit(queue, submitted, requests)?;
        queue.kick()?;
        if !queue.wait(PATIENCE)? {
            return Err(StatusError::Stuck);
        }
        while let Some(answer) = queue.reap()? {
            if answer.status != 0 {
                return Err(StatusError::Unread);
            }
            answered += 1;
        }
    }
    Ok(())
}

/// Submits as many requests as there are slots for. Returns how many were submitted in total.
fn submit(queue: &mut DriverQueue, mut submitted: u64, requests: u64) -> Result<u64, DriverError> {
    while submitted < requests {
        let Some(slot) = queue.take_slot() else { break };
        let bytes = REQUEST_BYTES;
        let sector = submitted * u64::from(bytes) / SECTOR;
        queue.submit(slot, DriverRequest::Read { sector, bytes })?;
        submitted += 1;
    }
    Ok(submitted)
}
