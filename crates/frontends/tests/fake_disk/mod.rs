//! A disk in memory, for tests and the example: it answers at once, or when it likes and in any order.
//!
//! Whoever includes this has `block` and `tenancy` beside it.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sublet_types::TenantId;

use super::block::{Desk, Disk, Extent, Fault, Outcome, Request, Shape, Verb};
use super::tenancy::Doorman;

/// Bytes that are a hole or not.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// Requests that a late disk lets pile up before it answers one.
const PILE_MAX: usize = 8;

/// How long it waits for more.
const PATIENCE: Duration = Duration::from_micros(200);

/// How a disk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Everything at once, from the asking thread.
    Prompt,
    /// Every third request at once; the others later, in any order, from a thread of its own.
    Late,
    /// Nothing, ever.
    Silent,
}

/// The disk.
pub(crate) struct FakeDisk {
    name: String,
    shape: Shape,
    chunks: Vec<RwLock<Option<Box<[u8]>>>>,
    /// Whoever touches this byte hears that the backing failed.
    bad_at: Option<u64>,
    mood: Mood,
    /// Requests so far: what is answered at once depends on it.
    pub(crate) asked: Mutex<u64>,
    late: Mutex<Option<Sender<Request>>>,
    /// What a silent disk was asked.
    pub(crate) unanswered: Mutex<Vec<Request>>,
}

impl FakeDisk {
    /// A disk of holes.
    pub(crate) fn new(name: &str, bytes: u64, mood: Mood) -> Arc<FakeDisk> {
        FakeDisk::shaped(
            name,
            Shape {
                bytes,
                read_only: false,
                trims: true,
            },
            mood,
            None,
        )
    }

    /// The same, of any shape, perhaps with a bad byte.
    pub(crate) fn shaped(
        name: &str,
        shape: Shape,
        mood: Mood,
        bad_at: Option<u64>,
    ) -> Arc<FakeDisk> {
        let chunks = 0..shape.bytes.div_ceil(CHUNK_BYTES);
        let disk = Arc::new(FakeDisk {
            name: name.to_owned(),
            shape,
            chunks: chunks.map(|_| RwLock::new(None)).collect(),
            bad_at,
            mood,
            asked: Mutex::new(0),
            late: Mutex::new(None),
            unanswered: Mutex::default(),
        });
        if mood == Mood::Late {
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
        match self.mood {
            Mood::Prompt => true,
            Mood::Late => asked.is_multiple_of(3),
            Mood::Silent => false,
        }
    }

    fn touches_bad(&self, at: u64, len: u64) -> bool {
        self.bad_at.is_some_and(|bad| (at..at + len).contains(&bad))
    }

    /// Chunks of a range: which, from where in it, how many bytes, and where these are in the range.
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

    fn clear(&self, at: u64, len: u64, hole: bool) {
        for (chunk, from, count, _) in FakeDisk::parts(at, len) {
            let mut chunk = self.chunks[chunk].write();
            if hole && count as u64 == CHUNK_BYTES {
                *chunk = None;
            } else if let Some(bytes) = &mut *chunk {
                bytes[from..from + count].fill(0);
            } else if !hole {
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

    pub(crate) fn carry_out(&self, mut request: Request) {
        let (at, len) = (request.at, request.len);
        let mut extents = Vec::new();
        let mut result = self.shape.check(at, len);
        if self.touches_bad(at, len) && request.verb != Verb::Prefetch {
            result = Err(Fault::Io);
        }
        if result.is_ok() {
            match request.verb {
                Verb::Read => self.load(at, &mut request.buffer),
                Verb::Write { .. } => self.save(at, &request.buffer),
                Verb::Zero { fast: true, .. } if !len.is_multiple_of(CHUNK_BYTES) => {
                    result = Err(Fault::NotSupported);
                }
                Verb::Zero { hole, .. } => self.clear(at, len, hole),
                Verb::Trim => self.clear(at, len, true),
                Verb::Extents { one } => {
                    extents = self.extents(at, len);
                    extents.truncate(if one { 1 } else { usize::MAX });
                }
                Verb::Flush | Verb::Prefetch => {}
            }
        }
        request.to.done(Outcome {
            token: request.token,
            result,
            buffer: request.buffer,
            extents,
        });
    }
}

/// Answers requests in an order that is not theirs, a few at a time.
fn answer_late(requests: &Receiver<Request>, answer: impl Fn(Request)) {
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

    fn shape(&self) -> Shape {
        self.shape
    }

    fn desk(self: Arc<Self>, _: &Doorman) -> Box<dyn Desk> {
        Box::new(FakeDesk(self))
    }

    fn start(&self, request: Request) {
        if self.mood == Mood::Silent {
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

/// A thread's handle on it.
struct FakeDesk(Arc<FakeDisk>);

impl FakeDesk {
    fn may(&self, at: u64, len: u64) -> bool {
        !self.0.touches_bad(at, len) && self.0.is_at_once()
    }
}

impl Desk for FakeDesk {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let may = self.may(at, into.len() as u64);
        if may {
            self.0.load(at, into);
        } else {
            into.fill(0xee);
        }
        may
    }

    fn write(&self, at: u64, from: &[u8], _: bool) -> bool {
        let may = self.may(at, from.len() as u64);
        if may {
            self.0.save(at, from);
        }
        may
    }

    fn trim(&self, at: u64, len: u64) -> bool {
        let may = self.may(at, len);
        if may {
            self.0.clear(at, len, true);
        }
        may
    }

    fn flush(&self) -> bool {
        self.0.is_at_once()
    }
}
