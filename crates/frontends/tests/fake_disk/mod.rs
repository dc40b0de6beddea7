//! A disk in memory, for tests and the example. It answers at once, or when it likes and in any order.
//!
//! The including module must have `block_device` and `tenancy` beside it.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sublet_types::TenantId;

use super::block_device::{
    Disk, DiskFastPath, DiskFault, DiskOperation, DiskOutcome, DiskRequest, DiskShape, Extent,
    ExtentLimit, Fua, Hole, ZeroSpeed, Zeroing,
};
use super::tenancy::StoreHandle;

/// Bytes of a chunk. A chunk is a hole or not.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// How many requests a late disk collects before it answers one.
const PILE_MAX: usize = 8;

/// How long a late disk waits for more requests.
const PATIENCE: Duration = Duration::from_micros(200);

/// How a disk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerMode {
    /// The disk answers everything at once, on the caller's thread.
    Prompt,
    /// The disk answers every third request at once. It answers the others later, in any order, on a thread of its own.
    Late,
    /// The disk never answers.
    Silent,
}

/// The disk.
pub(crate) struct FakeDisk {
    name: String,
    shape: DiskShape,
    chunks: Vec<RwLock<Option<Box<[u8]>>>>,
    /// The disk's backing fails at this byte.
    bad_at: Option<u64>,
    mode: AnswerMode,
    /// The number of requests so far. It decides what is answered at once.
    pub(crate) asked: Mutex<u64>,
    late: Mutex<Option<Sender<DiskRequest>>>,
    /// The requests of a silent disk.
    pub(crate) unanswered: Mutex<Vec<DiskRequest>>,
}

impl FakeDisk {
    /// A disk of holes.
    pub(crate) fn new(name: &str, bytes: u64, mode: AnswerMode) -> Arc<FakeDisk> {
        FakeDisk::shaped(
            name,
            DiskShape {
                bytes,
                read_only: false,
                trims: true,
            },
            mode,
            None,
        )
    }

    /// A disk of any shape, perhaps with a bad byte.
    pub(crate) fn shaped(
        name: &str,
        shape: DiskShape,
        mode: AnswerMode,
        bad_at: Option<u64>,
    ) -> Arc<FakeDisk> {
        let chunks = 0..shape.bytes.div_ceil(CHUNK_BYTES);
        let disk = Arc::new(FakeDisk {
            name: name.to_owned(),
            shape,
            chunks: chunks.map(|_| RwLock::new(None)).collect(),
            bad_at,
            mode,
            asked: Mutex::new(0),
            late: Mutex::new(None),
            unanswered: Mutex::default(),
        });
        if mode == AnswerMode::Late {
            let (sender, requests) = mpsc::channel();
            *disk.late.lock() = Some(sender);
            let weak = Arc::downgrade(&disk);
            thread::spawn(move || {
                answer_late(&requests, |request| {
                    if let Some(disk) = weak.upgrade() {
                        disk.carry_out(request);
                    }
                });
            });
        }
        disk
    }

    fn is_at_once(&self) -> bool {
        let mut asked = self.asked.lock();
        *asked += 1;
        match self.mode {
            AnswerMode::Prompt => true,
            AnswerMode::Late => asked.is_multiple_of(3),
            AnswerMode::Silent => false,
        }
    }

    fn touches_bad(&self, at: u64, len: u64) -> bool {
        self.bad_at.is_some_and(|bad| (at..at + len).contains(&bad))
    }

    /// The chunks of a range. For each: its number, the offset in it, how many bytes, and where these are in the range.
    fn parts(at: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let here = at + done;
            let from = here % CHUNK_BYTES;
            let count = (CHUNK_BYTES - from).min(len - done);
            let place = done as usize;
            done += count;
            (count > 0).then_some((
                (here / CHUNK_BYTES) as usize,
                from as usize,
                count as usize,
                place,
            ))
        })
    }

    fn load(&self, at: u64, into: &mut [u8]) {
        for (chunk, from, count, place) in FakeDisk::parts(at, into.len() as u64) {
            let into = &mut into[place..place + count];
            match &*self.chunks[chunk].read() {
                Some(bytes) => into.copy_from_slice(&bytes[from..from + count]),
                None => into.fill(0),
            }
        }
    }

    fn save(&self, at: u64, bytes: &[u8]) {
        for (chunk, from, count, place) in FakeDisk::parts(at, bytes.len() as u64) {
            let mut chunk = self.chunks[chunk].write();
            let chunk =
                chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES as usize].into_boxed_slice());
            chunk[from..from + count].copy_from_slice(&bytes[place..place + count]);
        }
    }

    fn clear(&self, at: u64, len: u64, hole: Hole) {
        for (chunk, from, count, _) in FakeDisk::parts(at, len) {
            let mut chunk = self.chunks[chunk].write();
            if hole == Hole::Allowed && count as u64 == CHUNK_BYTES {
                *chunk = None;
            } else if let Some(bytes) = &mut *chunk {
                bytes[from..from + count].fill(0);
            } else if hole == Hole::Forbidden {
                *chunk = Some(vec![0; CHUNK_BYTES as usize].into_boxed_slice());
            }
        }
    }

    fn extents(&self, at: u64, len: u64) -> Vec<Extent> {
        let parts = FakeDisk::parts(at, len);
        let extent = |(chunk, _, count, _): (usize, usize, usize, usize)| Extent {
            len: count as u64,
            hole: self.chunks[chunk].read().is_none(),
        };
        parts.map(extent).collect()
    }

    pub(crate) fn carry_out(&self, mut request: DiskRequest) {
        let (at, len) = (request.at, request.len);
        let mut extents = Vec::new();
        let mut result = self.shape.check(at, len);
        if self.touches_bad(at, len) && request.operation != DiskOperation::Prefetch {
            result = Err(DiskFault::Io);
        }
        if result.is_ok() {
            match request.operation {
                DiskOperation::Read => self.load(at, &mut request.buffer),
                DiskOperation::Write { .. } => self.save(at, &request.buffer),
                DiskOperation::Zero(Zeroing {
                    speed: ZeroSpeed::FastOnly,
                    ..
                }) if !len.is_multiple_of(CHUNK_BYTES) => {
                    result = Err(DiskFault::NotSupported);
                }
                DiskOperation::Zero(Zeroing { hole, .. }) => self.clear(at, len, hole),
                DiskOperation::Trim => self.clear(at, len, Hole::Allowed),
                DiskOperation::Extents { limit } => {
                    extents = self.extents(at, len);
                    if limit == ExtentLimit::One {
                        extents.truncate(1);
                    }
                }
                DiskOperation::Flush | DiskOperation::Prefetch => {}
            }
        }
        request.outcomes.deliver(DiskOutcome {
            token: request.token,
            result,
            buffer: request.buffer,
            extents,
        });
    }
}

/// Answers requests in another order than theirs, a few at a time.
fn answer_late(requests: &Receiver<DiskRequest>, answer: impl Fn(DiskRequest)) {
    let mut pile = Vec::new();
    let mut turn = 0_usize;
    loop {
        let more = match pile.is_empty() {
            true => requests.recv().ok(),
            false => requests.recv_timeout(PATIENCE).ok(),
        };
        let is_over = more.is_none() && pile.is_empty();
        let is_full = pile.len() >= PILE_MAX || more.is_none();
        pile.extend(more);
        if is_over {
            return;
        }
        if is_full {
            turn = turn.wrapping_mul(31).wrapping_add(7);
            answer(pile.swap_remove(turn % pile.len()));
        }
    }
}

impl Disk for FakeDisk {
    fn name(&self) -> &str {
        &self.name
    }

    fn tenant(&self) -> TenantId {
        TenantId(0)
    }

    fn shape(&self) -> DiskShape {
        self.shape
    }

    fn fast_path(self: Arc<Self>, _: &StoreHandle) -> Box<dyn DiskFastPath> {
        Box::new(FakeFastPath(self))
    }

    fn submit(&self, request: DiskRequest) {
        if self.mode == AnswerMode::Silent {
            return self.unanswered.lock().push(request);
        }
        match &*self.late.lock() {
            Some(late) => late
                .send(request)
                .expect("the disk's thread lives as long as the disk"),
            None => self.carry_out(request),
        }
    }
}

/// One thread's fast path to the disk.
struct FakeFastPath(Arc<FakeDisk>);

impl FakeFastPath {
    fn may(&self, at: u64, len: u64) -> bool {
        !self.0.touches_bad(at, len) && self.0.is_at_once()
    }
}

impl DiskFastPath for FakeFastPath {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let may = self.may(at, into.len() as u64);
        if may {
            self.0.load(at, into);
        } else {
            into.fill(0xee);
        }
        may
    }

    fn write(&self, at: u64, from: &[u8], _: Fua) -> bool {
        let may = self.may(at, from.len() as u64);
        if may {
            self.0.save(at, from);
        }
        may
    }

    fn trim(&self, at: u64, len: u64) -> bool {
        let may = self.may(at, len);
        if may {
            self.0.clear(at, len, Hole::Allowed);
        }
        may
    }

    fn flush(&self) -> bool {
        self.0.is_at_once()
    }
}
