//! The daemon's end of a ring: takes submissions, copies pages, writes completions. Whatever the client
//! writes, this end stays within the ring's shape, which it keeps for itself and never reads back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags};

use super::bell::{self, Bell, Sleep};
use super::layout::{Completion, SLOT_BYTES, Shape, Submission, at};
use super::mapped::Mapped;

/// An index that no honest client writes: after it nothing in the ring can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbage {
    /// More entries submitted than the queue has places.
    #[error("the ring's sq_tail is {tail} when {taken} entries were taken: at most {entries} fit")]
    SubmissionTail {
        /// What stands there.
        tail: u32,
        /// Entries taken so far.
        taken: u32,
        /// The queue's places.
        entries: u32,
    },
    /// More completions taken than were written.
    #[error("the ring's cq_head is {head} when {written} completions were written")]
    CompletionHead {
        /// What stands there.
        head: u32,
        /// Completions written so far.
        written: u32,
    },
}

/// A place in the page area that is known to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSlot(u32);

/// Page slots that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    first: u32,
    count: u32,
}

impl SlotRun {
    /// Them, one after the other.
    pub fn slots(self) -> impl Iterator<Item = PageSlot> {
        (self.first..self.first + self.count).map(PageSlot)
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.count
    }
}

/// The daemon's end of one ring.
#[derive(Debug)]
pub struct DaemonEnd {
    mapped: Mapped,
    shape: Shape,
    sq_head: u32,
    /// The client's tail when it was last read and believed.
    sq_tail_seen: u32,
    cq_tail: u32,
    cq_published: u32,
    /// The client's head when it was last read and believed.
    cq_head_seen: u32,
}

impl DaemonEnd {
    /// Makes a ring, and the file of memory for the client: sealed, so that it stays as long as it is and
    /// no access can fail.
    pub fn create(shape: Shape) -> io::Result<(DaemonEnd, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("sublet-ring", flags)?;
        rustix::fs::ftruncate(&file, shape.bytes() as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let mapped = Mapped::new(file.as_fd(), shape.bytes())?;
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

    /// Whether [`take`](DaemonEnd::take) would bring something: an entry with room for its completion, or garbage.
    pub fn has_work(&self) -> bool {
        let submitted = self.sq_tail_seen != self.sq_head || self.load(at::SQ_TAIL) != self.sq_head;
        submitted && (self.has_room() || self.load(at::CQ_HEAD) != self.cq_head_seen)
    }

    /// The next submission, copied out of the ring; none where there is none, or no room for its completion.
    pub fn take(&mut self) -> Result<Option<Submission>, Garbage> {
        if self.sq_tail_seen == self.sq_head && !self.see_tail()? {
            return Ok(None);
        }
        if !self.has_room() && !self.see_head()? {
            return Ok(None);
        }
        let at = self.shape.submission_at(self.sq_head);
        let submission = Submission::of(&self.mapped.load(at));
        self.sq_head = self.sq_head.wrapping_add(1);
        Ok(Some(submission))
    }

    /// Writes a completion, which the client sees after [`publish`](DaemonEnd::publish). One for each
    /// submission taken, no more: that is what keeps within the queue.
    pub fn complete(&mut self, completion: &Completion) {
        debug_assert_ne!(self.cq_tail, self.sq_head, "one for each submission");
        let at = self.shape.completion_at(self.cq_tail);
        self.mapped.store(at, &completion.to_bytes());
        self.cq_tail = self.cq_tail.wrapping_add(1);
    }

    /// Completions that were written and not yet published.
    pub fn unpublished(&self) -> u32 {
        self.cq_tail.wrapping_sub(self.cq_published)
    }

    /// Lets the client see what was written; says whether it wants to be rung.
    pub fn publish(&mut self) -> Bell {
        if self.unpublished() == 0 {
            return Bell::Quiet;
        }
        self.cq_published = self.cq_tail;
        let taken = self.mapped.word(at::SQ_HEAD);
        taken.store(self.sq_head, Ordering::Relaxed);
        let tail = self.mapped.word(at::CQ_TAIL);
        tail.store(self.cq_tail, Ordering::Release);
        bell::after_publishing(self.mapped.word(at::CLIENT_SLEEPS))
    }

    /// Says that this end sleeps from now on, unless there is work after all.
    pub fn fall_asleep(&self) -> Sleep {
        let word = self.mapped.word(at::DAEMON_SLEEPS);
        bell::fall_asleep(word, || self.has_work())
    }

    /// Says that this end is awake.
    pub fn wake_up(&self) {
        bell::wake_up(self.mapped.word(at::DAEMON_SLEEPS));
    }

    /// `count` page slots from `first` on; none where the ring does not have all of them.
    pub fn slots(&self, first: u32, count: u32) -> Option<SlotRun> {
        let has = self.shape.has_slots(first, count);
        has.then_some(SlotRun { first, count })
    }

    /// Copies a page out of its slot, as it is at this moment; the client may change it meanwhile.
    pub fn read_page(&self, slot: PageSlot, page: &mut [u8]) {
        let bytes = page.len().min(SLOT_BYTES);
        let at = self.shape.slot_at(slot.0);
        self.mapped.copy_out(at, &mut page[..bytes]);
    }

    /// Where a page's bytes lie in its slot, for as long as this end is there; the client may write to them all the
    /// while.
    pub fn page_place(&self, slot: PageSlot) -> NonNull<[u8; SLOT_BYTES]> {
        let at = self.shape.slot_at(slot.0);
        self.mapped.place(at, SLOT_BYTES).cast()
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

    /// Whether the completion queue has room for one more than those of all that was taken, as far as
    /// was seen.
    fn has_room(&self) -> bool {
        self.sq_head.wrapping_sub(self.cq_head_seen) < self.shape.entries()
    }

    fn see_tail(&mut self) -> Result<bool, Garbage> {
        let tail = self.load(at::SQ_TAIL);
        let (taken, entries) = (self.sq_head, self.shape.entries());
        if tail.wrapping_sub(taken) > entries {
            return Err(Garbage::SubmissionTail {
                tail,
                taken,
                entries,
            });
        }
        self.sq_tail_seen = tail;
        Ok(tail != taken)
    }

    fn see_head(&mut self) -> Result<bool, Garbage> {
        let head = self.load(at::CQ_HEAD);
        let written = self.cq_published;
        let before = written.wrapping_sub(self.cq_head_seen);
        if written.wrapping_sub(head) > before {
            return Err(Garbage::CompletionHead { head, written });
        }
        self.cq_head_seen = head;
        Ok(self.has_room())
    }
}
