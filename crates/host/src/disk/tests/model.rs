//! Compares a disk with a model. Two clients use the disk at once. Each compares its bytes with an array.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::os::fd::AsFd;
use std::thread;

use rustix::fs::{FallocateFlags, fallocate};
use sublet_frontends::block_device::{
    Buffer, DiskFastPath, DiskOperation, Fua, Hole, ZeroSpeed, Zeroing,
};
use sublet_types::{DiskKind, DiskSettings, Durability, FillPolicy, SlowBacking};

use super::{DISK_BYTES, Duration, Rig};

const PAGE: usize = 4096;

/// The length of a stripe. The stripes belong to the two clients in turn.
const STRIPE_BYTES: u64 = 64 << 10;

/// Where the first stripe begins. The clients share the pages at the ends of their stripes.
const STRIPE_BEGIN: u64 = 1536;

/// How many steps each client takes before the disk is opened anew.
const STEPS: u32 = 250;

/// What a page may have after it was trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trimmed {
    /// Zeroes, since the disk's backing makes holes.
    Zeroes,
    /// Zeroes or its last content, since the backing makes no holes.
    ZeroesOrLast,
    /// Zeroes or any former content, since swap keeps its space on the backing.
    ZeroesOrAny,
}

impl Trimmed {
    /// Returns what a rig's disk may read back on its file system.
    fn of(rig: &Rig) -> Trimmed {
        if rig.settings.kind == DiskKind::Swap {
            return Trimmed::ZeroesOrAny;
        }
        let file = tempfile::tempfile_in(rig.folder.path()).expect("a file");
        file.set_len(2 * PAGE as u64).expect("grown");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(file.as_fd(), hole, 0, PAGE as u64) {
            Ok(()) => Trimmed::Zeroes,
            Err(_) => Trimmed::ZeroesOrLast,
        }
    }
}

/// Random numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A client and its model of its bytes.
struct ModelClient {
    /// 0 for the stripes of even number, 1 for those of odd number.
    parity: u64,
    dice: Dice,
    bytes: Vec<u8>,
    /// The pages that were trimmed and not written since.
    trimmed: HashSet<usize>,
    /// Digests of each page's former contents.
    former: Vec<HashSet<u64>>,
    allowed: Trimmed,
}

fn digest(page: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(page)
}

impl ModelClient {
    fn new(parity: u64, allowed: Trimmed) -> ModelClient {
        ModelClient {
            parity,
            dice: Dice(0x9e37_79b9_7f4a_7c15 + parity),
            bytes: vec![0; DISK_BYTES as usize],
            trimmed: HashSet::new(),
            former: vec![HashSet::new(); DISK_BYTES as usize / PAGE],
            allowed,
        }
    }

    /// Draws a range of its own. Two of three are aligned to pages, the others to sectors.
    fn range(&mut self) -> Range<usize> {
        let unit = if self.dice.below(3) > 0 { 4096 } else { 512 };
        let pairs = DISK_BYTES / (2 * STRIPE_BYTES) - 1;
        let stripe = 2 * self.dice.below(pairs) + self.parity;
        let begin = STRIPE_BEGIN + stripe * STRIPE_BYTES;
        let at = begin + self.dice.below(STRIPE_BYTES / unit) * unit;
        // The range is aligned to the disk's pages, but the stripe's begin may cut it.
        let at = (at / unit * unit).max(begin);
        let len = (1 + self.dice.below(16)) * unit;
        at as usize..(at + len).min(begin + STRIPE_BYTES) as usize
    }

    /// Returns the pages that lie in `range` as a whole.
    fn whole_pages(range: &Range<usize>) -> Range<usize> {
        let first = range.start.div_ceil(PAGE);
        first..(range.end / PAGE).max(first)
    }

    /// Returns whether a read of `within` in `page` may return `got`.
    fn allows(&self, page: usize, got: &[u8], within: Range<usize>) -> bool {
        let is_last = got == &self.bytes[within.clone()];
        if !self.trimmed.contains(&page) {
            return is_last;
        }
        let is_zero = got.iter().all(|byte| *byte == 0);
        match self.allowed {
            Trimmed::Zeroes => is_zero,
            Trimmed::ZeroesOrLast => is_zero || is_last,
            Trimmed::ZeroesOrAny => is_zero || is_last || self.former[page].contains(&digest(got)),
        }
    }

    fn check(&self, range: Range<usize>, got: &[u8], when: &str) {
        let mut at = range.start;
        while at < range.end {
            let end = ((at / PAGE + 1) * PAGE).min(range.end);
            let part = &got[at - range.start..end - range.start];
            assert!(
                self.allows(at / PAGE, part, at..end),
                "{at}..{end} of {range:?}, {when}, client {}: {:x?}",
                self.parity,
                &part[..8]
            );
            at = end;
        }
    }

    fn read(&self, rig: &Rig, handle: &dyn DiskFastPath, range: Range<usize>, when: &str) {
        let range = self.widened(range);
        let got = rig.read(handle, range.start as u64, range.len());
        self.check(range, &got, when);
    }

    /// Extends a range to the whole of its trimmed pages. A write to a part of a trimmed page leaves the rest
    /// undefined, so the client accesses such a page as a whole.
    fn widened(&self, range: Range<usize>) -> Range<usize> {
        let first = range.start / PAGE;
        let last = (range.end - 1) / PAGE;
        let start = match self.trimmed.contains(&first) {
            true => first * PAGE,
            false => range.start,
        };
        let end = match self.trimmed.contains(&last) {
            true => (last + 1) * PAGE,
            false => range.end,
        };
        start..end
    }

    fn write(&mut self, rig: &Rig, handle: &dyn DiskFastPath, range: Range<usize>) {
        let range = self.widened(range);
        // The words of some pages are all equal.
        let (mark, step) = (1 + self.dice.below(255) as u8, self.dice.below(3) as u8);
        for (n, byte) in self.bytes[range.clone()].iter_mut().enumerate() {
            *byte = mark.wrapping_add(step.wrapping_mul((n / 8) as u8));
        }
        rig.write(handle, range.start as u64, &self.bytes[range.clone()]);
        self.record_change(&range);
    }

    /// Records the new content of these pages, which are no longer trimmed.
    fn record_change(&mut self, range: &Range<usize>) {
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            self.trimmed.remove(&page);
            let bytes = &self.bytes[page * PAGE..(page + 1) * PAGE];
            self.former[page].insert(digest(bytes));
        }
    }

    fn zero(&mut self, rig: &Rig, range: Range<usize>) {
        let range = self.widened(range);
        let zero = DiskOperation::Zero(Zeroing {
            hole: match self.dice.below(2) == 0 {
                true => Hole::Allowed,
                false => Hole::Forbidden,
            },
            speed: ZeroSpeed::Any,
            fua: Fua::Off,
        });
        let (at, len) = (range.start as u64, range.len() as u64);
        let outcome = rig.request(zero, at, len, Buffer::default());
        assert_eq!(outcome.result, Ok(()));
        self.bytes[range.clone()].fill(0);
        self.record_change(&range);
    }

    fn trim(&mut self, rig: &Rig, handle: &dyn DiskFastPath, range: Range<usize>) {
        let (at, len) = (range.start as u64, range.len() as u64);
        if !handle.trim(at, len) {
            let outcome = rig.request(DiskOperation::Trim, at, len, Buffer::default());
            assert_eq!(outcome.result, Ok(()));
        }
        self.trimmed.extend(Self::whole_pages(&range));
    }

    /// Makes random reads, writes, trims and zeroes of any alignment.
    fn walk(&mut self, rig: &Rig) {
        let handle = rig.handle();
        for step in 0..STEPS {
            let range = self.range();
            match self.dice.below(10) {
                0..=3 => self.read(rig, &*handle, range, &format!("step {step}")),
                4..=6 => self.write(rig, &*handle, range),
                7 => self.zero(rig, range),
                _ => {
                    self.trim(rig, &*handle, range.clone());
                    self.read(rig, &*handle, range, &format!("trimmed in step {step}"));
                }
            }
        }
    }

    /// Checks its own stripes among all bytes of the disk.
    fn check_all(&self, all: &[u8]) {
        let begin = (STRIPE_BEGIN + self.parity * STRIPE_BYTES) as usize;
        for at in (begin..all.len()).step_by(2 * STRIPE_BYTES as usize) {
            let range = at..(at + STRIPE_BYTES as usize).min(all.len());
            self.check(range.clone(), &all[range], "in the end");
        }
    }
}

/// Runs two deterministic walks at once, and opens the disk anew in between.
fn a_disk_is_an_array(kind: DiskKind, change: impl FnOnce(&mut DiskSettings)) {
    let mut rig = Rig::new(kind, change);
    let allowed = Trimmed::of(&rig);
    let mut clients = [0, 1].map(|parity| ModelClient::new(parity, allowed));
    for _ in 0..6 {
        thread::scope(|scope| {
            let rig = &rig;
            for client in &mut clients {
                scope.spawn(move || client.walk(rig));
            }
        });
        let flushed = rig.request(DiskOperation::Flush, 0, 0, Buffer::default());
        assert_eq!(flushed.result, Ok(()));
        rig.end();
        rig.open();
    }
    rig.end();
    // In the end the backing has every byte.
    let left = std::fs::read(rig.settings.backing.as_ref().expect("a path")).expect("read");
    clients.iter().for_each(|client| client.check_all(&left));
}

#[test]
fn a_cached_disk_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |_| {});
}

#[test]
fn a_disk_that_keeps_what_is_missed_twice_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |settings| {
        settings.fill = Some(FillPolicy::SecondMiss);
        settings.sequential_max = Some(8);
    });
}

#[test]
fn a_disk_that_drops_what_is_read_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |settings| {
        settings.fill = Some(FillPolicy::DropOnRead);
    });
}

#[test]
fn a_slow_disk_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |settings| {
        settings.slow = Some(SlowBacking {
            latency: Duration::from_micros(10),
            bandwidth: None,
        });
    });
}

#[test]
fn swap_is_an_array() {
    a_disk_is_an_array(DiskKind::Swap, |_| {});
}

#[test]
fn swap_in_memory_is_an_array() {
    a_disk_is_an_array(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::Memory);
    });
}

#[test]
fn swap_written_through_is_an_array() {
    a_disk_is_an_array(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::WriteThrough);
    });
}
