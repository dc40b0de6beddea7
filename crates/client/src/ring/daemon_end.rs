//! The daemon's end of a ring. It takes submissions, copies pages and writes completions. Whatever the client writes,
//! this end stays within the ring's shape. It keeps the shape for itself and never reads it back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags};

use super::doorbell::{self, SleepAttempt, Wakeup};
use super::layout::{Completion, SLOT_BYTES, Shape, Submission, at};
use super::mapped::SharedMapping;

/// An index that no honest client writes. After it, nothing in the ring can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorruptIndex {
    /// The client submitted more entries than the queue has room for.
    #[error("the ring's sq_tail is {tail} when {taken} entries were taken: at most {entries} fit")]
    SubmissionTail {
        /// The index in the ring.
        tail: u32,
        /// How many entries were taken so far.
        taken: u32,
        /// How many entries the queue has.
        entries: u32,
    },
    /// The client took more completions than were written.
    #[error("the ring's cq_head is {head} when {written} completions were written")]
    CompletionHead {
        /// The index in the ring.
        head: u32,
        /// How many completions were written so far.
        written: u32,
    },
}

/// A page slot that the ring is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSlot(u32);

/// Consecutive page slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    first: u32,
    count: u32,
}

impl SlotRun {
    /// The slots, one after the other.
    pub fn slots(self) -> impl Iterator<Item = PageSlot> {
        (self.first..self.first + self.count).map(PageSlot)
    }

    /// How many slots.
    pub fn count(self) -> u32 {
        self.count
    }
}

/// The daemon's end of one ring.
#[derive(Debug)]
pub struct DaemonEnd {
    mapped: SharedMapping,
    shape: Shape,
    sq_head: u32,
    /// The client's tail when it was last read and checked.
    sq_tail_seen: u32,
    cq_tail: u32,
    cq_published: u32,
    /// The client's head when it was last read and checked.
    cq_head_seen: u32,
}

impl DaemonEnd {
    /// Makes a ring, and the memory file for the client. The file is sealed, so it keeps its length and no access can
    /// fail.
    pub fn create(shape: Shape) -> io::Result<(DaemonEnd, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("sublet-ring", flags)?;
        rustix::fs::ftruncate(&file, shape.bytes() as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let mapped = SharedMapping::new(file.as_fd(), shape.bytes())?;
        mapped.store(0, &shape.preamble());
        let end = DaemonEnd {
            mapped,
            shape,
            sq_head: 0,
            sq_tail_seen: 0,
            cq_tail: 0,
            cq_published: 0,
            cq_head_seen: 0,
        };
        Ok((end, file))
    }

    /// The ring's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns whether [`dequeue`](DaemonEnd::dequeue) would return something: an entry whose completion has room, or
    /// an error.
    pub fn has_work(&self) -> bool {
        let submitted = self.sq_tail_seen != self.sq_head || self.load(at::SQ_TAIL) != self.sq_head;
        submitted && (self.has_room() || self.load(at::CQ_HEAD) != self.cq_head_seen)
    }

    /// Takes the next submission, copied out of the ring. `None` if there is none, or no room for its completion.
    pub fn dequeue(&mut self) -> Result<Option<Submission>, CorruptIndex> {
        if self.sq_tail_seen == self.sq_head && !self.refresh_tail()? {
            return Ok(None);
        }
        if !self.has_room() && !self.refresh_head()? {
            return Ok(None);
        }
        let at = self.shape.submission_at(self.sq_head);
        let submission = Submission::of(&self.mapped.load(at));
        self.sq_head = self.sq_head.wrapping_add(1);
        Ok(Some(submission))
    }

    /// Writes a completion. The client sees it after [`publish`](DaemonEnd::publish). Write exactly one per submission,
    /// so that the queue never overflows.
    pub fn complete(&mut self, completion: &Completion) {
        debug_assert_ne!(self.cq_tail, self.sq_head, "one for each submission");
        let at = self.shape.completion_at(self.cq_tail);
        self.mapped.store(at, &completion.to_bytes());
        self.cq_tail = self.cq_tail.wrapping_add(1);
    }

    /// How many completions were written and not published yet.
    pub fn unpublished(&self) -> u32 {
        self.cq_tail.wrapping_sub(self.cq_published)
    }

    /// Lets the client see the completions. Returns whether the client wants its doorbell rung.
    pub fn publish(&mut self) -> Wakeup {
        if self.unpublished() == 0 {
            return Wakeup::NotNeeded;
        }
        self.cq_published = self.cq_tail;
        let taken = self.mapped.word(at::SQ_HEAD);
        taken.store(self.sq_head, Ordering::Relaxed);
        let tail = self.mapped.word(at::CQ_TAIL);
        tail.store(self.cq_tail, Ordering::Release);
        doorbell::after_publishing(self.mapped.word(at::CLIENT_SLEEPS))
    }

    /// Says that this end sleeps from now on, unless there is work after all.
    pub fn fall_asleep(&self) -> SleepAttempt {
        let word = self.mapped.word(at::DAEMON_SLEEPS);
        doorbell::fall_asleep(word, || self.has_work())
    }

    /// Says that this end is awake.
    pub fn wake_up(&self) {
        doorbell::wake_up(self.mapped.word(at::DAEMON_SLEEPS));
    }

    /// `count` page slots from `first` on. `None` if the ring does not have all of them.
    pub fn slots(&self, first: u32, count: u32) -> Option<SlotRun> {
        let has = self.shape.has_slots(first, count);
        has.then_some(SlotRun { first, count })
    }

    /// Copies a page out of its slot as it is now. The client may change it meanwhile.
    pub fn read_page(&self, slot: PageSlot, page: &mut [u8]) {
        let bytes = page.len().min(SLOT_BYTES);
        let at = self.shape.slot_at(slot.0);
        self.mapped.copy_out(at, &mut page[..bytes]);
    }

    /// Where a page's bytes lie in its slot. The pointer is valid as long as this end exists. The client may write to
    /// the bytes all the while.
    pub fn page_pointer(&self, slot: PageSlot) -> NonNull<[u8; SLOT_BYTES]> {
        let at = self.shape.slot_at(slot.0);
        self.mapped.pointer(at, SLOT_BYTES).cast()
    }

    /// Copies a page into its slot.
    pub fn write_page(&self, slot: PageSlot, page: &[u8]) {
        let bytes = page.len().min(SLOT_BYTES);
        let at = self.shape.slot_at(slot.0);
        self.mapped.copy_in(at, &page[..bytes]);
    }

    fn load(&self, at: usize) -> u32 {
        self.mapped.word(at).load(Ordering::Acquire)
    }

    /// Returns whether the completion queue has room for one more completion than those of all submissions taken, as
    /// far as this end has seen.
    fn has_room(&self) -> bool {
        self.sq_head.wrapping_sub(self.cq_head_seen) < self.shape.entries()
    }

    fn refresh_tail(&mut self) -> Result<bool, CorruptIndex> {
        let tail = self.load(at::SQ_TAIL);
        let (taken, entries) = (self.sq_head, self.shape.entries());
        if tail.wrapping_sub(taken) > entries {
            return Err(CorruptIndex::SubmissionTail {
                tail,
                taken,
                entries,
            });
        }
        self.sq_tail_seen = tail;
        Ok(tail != taken)
    }

    fn refresh_head(&mut self) -> Result<bool, CorruptIndex> {
        let head = self.load(at::CQ_HEAD);
        let written = self.cq_published;
        let before = written.wrapping_sub(self.cq_head_seen);
        if written.wrapping_sub(head) > before {
            return Err(CorruptIndex::CompletionHead { head, written });
        }
        self.cq_head_seen = head;
        Ok(self.has_room())
    }
}
