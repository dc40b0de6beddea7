//! A client's end of a ring. It writes submissions, fills and reads page slots, and takes completions. The client
//! trusts the daemon with the pages, but checks the daemon's numbers.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::SealFlags;

use super::doorbell::{self, SleepAttempt, Wakeup};
use super::layout::{Completion, SLOT_BYTES, Shape, Submission, at};
use super::mapped::SharedMapping;

/// A page as it lies in a slot.
pub type Page = [u8; SLOT_BYTES];

/// Why a memory file is no ring.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRing {
    /// The kernel does not map the file.
    #[error("cannot map the ring: {0}")]
    Map(#[from] io::Error),
    /// The file does not begin like a ring of that shape, or it could shrink.
    #[error("what the daemon sent is no ring of the agreed shape and version")]
    Wrong,
}

/// A client's end of one ring.
#[derive(Debug)]
pub(super) struct ClientEnd {
    mapped: SharedMapping,
    shape: Shape,
    sq_tail: u32,
    cq_head: u32,
}

impl ClientEnd {
    /// Maps the memory file of a ring.
    pub(super) fn open(file: impl AsFd, shape: Shape) -> Result<ClientEnd, InvalidRing> {
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(io::Error::from)?;
        let bytes = rustix::fs::fstat(&file).map_err(io::Error::from)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || bytes as u64 != shape.bytes() as u64 {
            return Err(InvalidRing::Wrong);
        }
        let mapped = SharedMapping::new(file, shape.bytes())?;
        if mapped.load::<32>(0) != shape.preamble() {
            return Err(InvalidRing::Wrong);
        }
        Ok(ClientEnd {
            mapped,
            shape,
            sq_tail: 0,
            cq_head: 0,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// How many more submissions may be under way.
    pub(super) fn room(&self) -> u32 {
        self.shape.entries() - self.under_way()
    }

    /// How many submissions have completions that were not taken yet.
    pub(super) fn under_way(&self) -> u32 {
        self.sq_tail.wrapping_sub(self.cq_head)
    }

    /// Writes a submission. There must be room for it. The daemon sees it after [`publish`](ClientEnd::publish).
    pub(super) fn submit(&mut self, submission: &Submission) {
        assert!(self.room() > 0, "at most `entries` are under way");
        let at = self.shape.submission_at(self.sq_tail);
        self.mapped.store(at, &submission.to_bytes());
        self.sq_tail = self.sq_tail.wrapping_add(1);
    }

    /// Lets the daemon see the submissions. Returns whether the daemon wants its doorbell rung.
    pub(super) fn publish(&self) -> Wakeup {
        let tail = self.mapped.word(at::SQ_TAIL);
        tail.store(self.sq_tail, Ordering::Release);
        doorbell::after_publishing(self.mapped.word(at::DAEMON_SLEEPS))
    }

    /// Returns whether [`reap`](ClientEnd::reap) would return a completion.
    pub(super) fn has_completions(&self) -> bool {
        self.mapped.word(at::CQ_TAIL).load(Ordering::Acquire) != self.cq_head
    }

    /// Takes the next completion.
    pub(super) fn reap(&mut self) -> Option<Completion> {
        if self.under_way() == 0 || !self.has_completions() {
            return None;
        }
        let at = self.shape.completion_at(self.cq_head);
        let completion = Completion::of(&self.mapped.load(at));
        self.cq_head = self.cq_head.wrapping_add(1);
        let head = self.mapped.word(at::CQ_HEAD);
        head.store(self.cq_head, Ordering::Release);
        Some(completion)
    }

    /// Says that this end sleeps from now on, unless there are completions after all.
    pub(super) fn fall_asleep(&self) -> SleepAttempt {
        let word = self.mapped.word(at::CLIENT_SLEEPS);
        doorbell::fall_asleep(word, || self.has_completions())
    }

    /// Says that this end is awake.
    pub(super) fn wake_up(&self) {
        doorbell::wake_up(self.mapped.word(at::CLIENT_SLEEPS));
    }

    /// Page slots, to read.
    pub(super) fn pages(&self, first: u32, count: u32) -> &[Page] {
        self.mapped.pages(self.shape.slot_at(first), count as usize)
    }

    /// Page slots, to fill.
    pub(super) fn pages_mut(&mut self, first: u32, count: u32) -> &mut [Page] {
        let at = self.shape.slot_at(first);
        self.mapped.pages_mut(at, count as usize)
    }
}
