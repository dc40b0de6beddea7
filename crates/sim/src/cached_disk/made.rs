//! Requests for where there is no trace: a made mix that a guest's disk might see.

use crate::chance::{Chance, Zipf};
use crate::traces::{Access, Op, Space, TracePage};
use crate::virtual_time::Moment;

/// Requests.
const REQUESTS: u32 = 60_000;

/// Pages of which some are wanted again and again.
const POPULAR: u64 = 20_000;

/// Where each of the readers in order begins, so many pages from the one before.
const READER_PAGES: u64 = 20_000;

/// Readers in order, who go on in turn.
const READERS: u64 = 4;

/// Pages that are read in order over and over again.
const LOOP_PAGES: u64 = 4_000;

/// Pages of a request that reads in order.
const RUN_PAGES: u32 = 4;

/// Half of the requests to popular pages, a tenth of them writes; the others by readers in order, of whom one begins
/// again and again. The same seed gives the same requests.
pub fn made(seed: u64) -> Vec<Access> {
    let mut chance = Chance::of_part(seed, 0);
    let law = Zipf::of(POPULAR, 0.9);
    let mut read = [0; READERS as usize];
    let request = |_| match chance.happens(0.5) {
        true => popular(&law, &mut chance),
        false => in_order(&mut read, &mut chance),
    };
    (0..REQUESTS).map(request).collect()
}

fn popular(law: &Zipf, chance: &mut Chance) -> Access {
    // Neighbours in rank are no neighbours on the device.
    let page = law.draw(chance).wrapping_mul(7_919) % POPULAR;
    let op = match chance.happens(0.1) {
        true => Op::Write,
        false => Op::Read,
    };
    access(page, 1, op)
}

fn in_order(read: &mut [u64; READERS as usize], chance: &mut Chance) -> Access {
    let reader = chance.below(READERS);
    let most = match reader {
        0 => LOOP_PAGES,
        _ => READER_PAGES,
    };
    let next = &mut read[reader as usize];
    let page = POPULAR + reader * READER_PAGES + *next % most;
    *next += u64::from(RUN_PAGES);
    access(page, RUN_PAGES, Op::Read)
}

fn access(page: u64, count: u32, op: Op) -> Access {
    Access {
        at: Moment::START,
        page: TracePage::of_device(page),
        space: Space::Device,
        count,
        op,
    }
}
