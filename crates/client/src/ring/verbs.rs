//! What a client asks and hears, and how that is written into entries.

use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

use super::hello::Farewell;
use super::layout::{
    self, Completion, Fault, Opcode, Outcome, RUN_PAGES_MAX, Refusal, Shape, Submission,
};

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The pool.
    pub pool: PoolId,
    /// The object in it.
    pub object: ObjectId,
    /// The page in that.
    pub index: PageIndex,
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is stored.
    Stored,
    /// It is stored in place of an older one.
    Replaced,
    /// It is not stored, and neither is an older one any more.
    Refused(Refusal),
}

/// What became of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    /// Here it is.
    Hit,
    /// It is not there: never stored, flushed, evicted, or taken by an earlier get.
    Miss,
    /// It cannot be told now.
    Refused(Refusal),
}

/// What became of each page of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    done: u64,
    replaced: u64,
    refusal: Option<Refusal>,
}

impl Run {
    /// Whether page `n` of the run was stored, or hit.
    pub fn is_done(&self, n: usize) -> bool {
        n < u64::BITS as usize && self.done >> n & 1 == 1
    }

    /// Whether page `n` of a put replaced an older one.
    pub fn has_replaced(&self, n: usize) -> bool {
        n < u64::BITS as usize && self.replaced >> n & 1 == 1
    }

    /// How many pages were stored, or hit.
    pub fn done_count(&self) -> usize {
        self.done.count_ones() as usize
    }

    /// Why the first page that was refused was refused; none where none was.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// The pages that were stored, or hit: bit n stands for page n.
    pub fn bits(&self) -> u64 {
        self.done
    }

    /// The pages of a put that replaced older ones: bit n stands for page n.
    pub fn replaced_bits(&self) -> u64 {
        self.replaced
    }

    pub(super) fn put(&self) -> Put {
        match (self.refusal, self.has_replaced(0)) {
            (Some(refusal), _) => Put::Refused(refusal),
            (None, true) => Put::Replaced,
            (None, false) => Put::Stored,
        }
    }

    pub(super) fn get(&self) -> Get {
        match (self.refusal, self.is_done(0)) {
            (_, true) => Get::Hit,
            (Some(refusal), false) => Get::Refused(refusal),
            (None, false) => Get::Miss,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection is over, with every pool of it that had no name. Connect again; what was stored
    /// counts as missed.
    #[error("the connection is over: {0}")]
    Gone(#[from] Farewell),
    /// The daemon understood and would not. Later it may.
    #[error("the daemon refused: {0}")]
    Refused(#[from] Refusal),
    /// The call makes no sense. Trying again will not help.
    #[error("the call makes no sense: {0}")]
    Faulty(#[from] Fault),
    /// Another process connected: this one was forked from it, and shares the memory of its ring. Connect here, too.
    #[error("the ring is of the process that this one was forked from: connect here, too")]
    Forked,
    /// The daemon answered something that this version does not know.
    #[error("the daemon's answer makes no sense to this version")]
    Garbled,
}

pub(super) fn run(opcode: Opcode, first: Key, count: u32, page_slot: u32) -> Submission {
    Submission {
        opcode: opcode as u16,
        count,
        pool: layout::handle_of(first.pool),
        object: first.object.0,
        index: first.index.0,
        page_slot,
        ..Submission::default()
    }
}

pub(super) fn flush_object(pool: PoolId, object: ObjectId) -> Submission {
    Submission {
        opcode: Opcode::FlushObject as u16,
        pool: layout::handle_of(pool),
        object: object.0,
        ..Submission::default()
    }
}

pub(super) fn create_pool(flags: PoolFlags, shared: Option<SharedName>) -> Submission {
    Submission {
        opcode: Opcode::CreatePool as u16,
        flags: layout::flag_bits(flags),
        shared: layout::shared_bits(shared),
        ..Submission::default()
    }
}

pub(super) fn destroy_pool(pool: PoolId) -> Submission {
    Submission {
        opcode: Opcode::DestroyPool as u16,
        pool: layout::handle_of(pool),
        ..Submission::default()
    }
}

/// How many pages a run has, if that many can be asked for at once.
pub(super) fn run_count(pages: usize, shape: Shape) -> Result<u32, Fault> {
    let count = u32::try_from(pages).map_err(|_| Fault::Run)?;
    match count {
        _ if !(1..=RUN_PAGES_MAX).contains(&count) => Err(Fault::Run),
        _ if !shape.has_slots(0, count) => Err(Fault::PageSlots),
        _ => Ok(count),
    }
}

pub(super) fn run_of(completion: &Completion) -> Result<Run, CallError> {
    let refusal = match outcome_of(completion)? {
        Outcome::Done => None,
        Outcome::Refused(refusal) => Some(refusal),
        Outcome::Faulty(fault) => return Err(fault.into()),
    };
    Ok(Run {
        done: completion.first,
        replaced: completion.second,
        refusal,
    })
}

pub(super) fn pool_of(completion: &Completion) -> Result<PoolId, CallError> {
    done(completion).map(|()| layout::pool_of(completion.first))
}

pub(super) fn done(completion: &Completion) -> Result<(), CallError> {
    match outcome_of(completion)? {
        Outcome::Done => Ok(()),
        Outcome::Refused(refusal) => Err(refusal.into()),
        Outcome::Faulty(fault) => Err(fault.into()),
    }
}

fn outcome_of(completion: &Completion) -> Result<Outcome, CallError> {
    Outcome::of(completion.outcome).ok_or(CallError::Garbled)
}
