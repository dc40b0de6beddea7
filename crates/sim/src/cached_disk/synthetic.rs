//! Synthetic requests for hosts without traces: a mix that a guest's disk might see.

use crate::rng::{SimRng, Zipf};
use crate::traces::{AddressSpace, PageOp, TracePage, TraceRequest};
use crate::virtual_time::VirtualInstant;

/// The number of requests.
const REQUESTS: u32 = 60_000;

/// Pages of which some are wanted again and again.
const POPULAR: u64 = 20_000;

/// The distance in pages between the first pages of two sequential readers.
const READER_PAGES: u64 = 20_000;

/// The number of sequential readers. They take turns at random.
const READERS: u64 = 4;

/// Pages that are read in order over and over again.
const LOOP_PAGES: u64 = 4_000;

/// Pages per request of a sequential reader.
const RUN_PAGES: u32 = 4;

/// Makes the requests. Half of them go to popular pages, and a tenth of those are writes. The other half comes from
/// sequential readers, one of which starts over again and again. The same seed gives the same requests.
pub fn synthetic_requests(seed: u64) -> Vec<TraceRequest> {
    let mut rng = SimRng::of_part(seed, 0);
    let law = Zipf::of(POPULAR, 0.9);
    let mut read = [0; READERS as usize];
    let request = |_| match rng.happens(0.5) {
        true => popular(&law, &mut rng),
        false => in_order(&mut read, &mut rng),
    };
    (0..REQUESTS).map(request).collect()
}

fn popular(law: &Zipf, rng: &mut SimRng) -> TraceRequest {
    // Pages that are neighbours in rank are no neighbours on the device.
    let page = law.draw(rng).wrapping_mul(7_919) % POPULAR;
    access(page, 1, PageOp::drawn(0.1, rng))
}

fn in_order(read: &mut [u64; READERS as usize], rng: &mut SimRng) -> TraceRequest {
    let reader = rng.below(READERS);
    let most = match reader {
        0 => LOOP_PAGES,
        _ => READER_PAGES,
    };
    let next = &mut read[reader as usize];
    let page = POPULAR + reader * READER_PAGES + *next % most;
    *next += u64::from(RUN_PAGES);
    access(page, RUN_PAGES, PageOp::Read)
}

fn access(page: u64, count: u32, op: PageOp) -> TraceRequest {
    TraceRequest {
        at: VirtualInstant::START,
        page: TracePage::of_device(page),
        space: AddressSpace::Device,
        count,
        op,
    }
}
