//! The table of far frames: a record of 32 bytes and a seal of 32 bytes for each page-sized slot of a lender's block.
//!
//! A far frame belongs to one shard of one tenant, or to nobody, as a frame here does. Its record has the same fields.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::arena::{ROW, WordTable};
use crate::borrowing::{FarFrame, PageSeal, SealTag};

use super::{Frame, FrameId, FrameRows, QueueId};

impl FarFrame {
    /// The number by which the records and their queues know it.
    pub(crate) fn row(self) -> FrameId {
        FrameId(self.0)
    }
}

impl From<FrameId> for FarFrame {
    fn from(row: FrameId) -> FarFrame {
        FarFrame(row.0)
    }
}

/// The state of a far frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarState {
    /// Not handed out yet, or moving from one state to another.
    Idle,
    /// In its shard's list of free far frames.
    Free,
    /// Its page waits in the outbox, or is on its way to the lender. The outbox has the bytes.
    Outbound,
    /// The lender has its page.
    Away,
    /// Its page left while it was on its way. Nothing may be written to it until the lender has answered.
    Cancelled,
}

impl FarState {
    const ALL: [FarState; 5] = [
        FarState::Idle,
        FarState::Free,
        FarState::Outbound,
        FarState::Away,
        FarState::Cancelled,
    ];
}

/// What a far frame takes: its record and its seal.
pub(crate) const FAR_FRAME_BYTES: u64 = 2 * (ROW * size_of::<u32>()) as u64;

const TAG_WORDS: usize = 4;
const SEQUENCE: usize = TAG_WORDS;

/// The records of all far frames.
pub(crate) struct FarFrames {
    records: WordTable,
    seals: WordTable,
}

impl FrameRows for FarFrames {
    fn row(&self, frame: FrameId) -> Frame<'_> {
        Frame(self.records.row(frame.0))
    }
}

impl FarFrames {
    /// A table of this many frames that nobody has.
    pub(super) fn reserve(frames: usize) -> std::io::Result<FarFrames> {
        Ok(FarFrames {
            records: WordTable::reserve(frames)?,
            seals: WordTable::reserve(frames)?,
        })
    }

    /// Gives the memory of frames back that nobody has. Their state is [`FarState::Idle`].
    pub(crate) fn give_back(&self, frames: Range<u32>) {
        self.records.give_back(frames.clone());
        self.seals.give_back(frames);
    }

    /// The record of a far frame.
    pub(crate) fn get(&self, frame: FarFrame) -> Frame<'_> {
        self.row(frame.row())
    }

    /// The state of a far frame. It changes only under the lock of the frame's shard.
    pub(crate) fn state(&self, frame: FarFrame) -> FarState {
        FarState::ALL[usize::from(self.get(frame).queue().0)]
    }

    /// Sets the state of a far frame that is in no list.
    pub(crate) fn set_state(&self, frame: FarFrame, state: FarState) {
        self.get(frame).set_queue(QueueId(state as u8));
    }

    /// What opens the page that the lender has.
    pub(crate) fn seal(&self, frame: FarFrame) -> PageSeal {
        let words = self.seals.row(frame.0);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let mut tag = [0; size_of::<SealTag>()];
        for (bytes, at) in tag.chunks_exact_mut(size_of::<u32>()).zip(0..) {
            bytes.copy_from_slice(&word(at).to_le_bytes());
        }
        PageSeal {
            tag: SealTag(tag),
            sequence: word(SEQUENCE),
        }
    }

    /// Records what opens the page that the lender has.
    pub(crate) fn set_seal(&self, frame: FarFrame, seal: PageSeal) {
        let words = self.seals.row(frame.0);
        let set = |at: usize, word: u32| {
            words[at].store(word, Ordering::Relaxed);
        };
        for (bytes, at) in seal.tag.0.as_chunks().0.iter().zip(0..) {
            set(at, u32::from_le_bytes(*bytes));
        }
        set(SEQUENCE, seal.sequence);
    }
}

const _: () = assert!(FarState::Free as u8 == QueueId::FREE.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_given_back_are_idle_and_have_no_seal() {
        let frames = FarFrames::reserve(1024).expect("addresses");
        let seal = PageSeal {
            tag: SealTag([7; 16]),
            sequence: 9,
        };
        for frame in [0, 511, 512, 1023].map(FarFrame) {
            frames.set_state(frame, FarState::Away);
            frames.set_seal(frame, seal);
        }
        frames.give_back(512..1024);
        for frame in [512, 1023].map(FarFrame) {
            assert_eq!(frames.state(frame), FarState::Idle);
            assert_eq!(frames.seal(frame), PageSeal::default());
        }
        for frame in [0, 511].map(FarFrame) {
            assert_eq!(
                (frames.state(frame), frames.seal(frame)),
                (FarState::Away, seal)
            );
        }
    }
}
