//! The requests and outcomes of a client, and how they are written into entries.

use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

use super::hello::CloseReason;
use super::layout::{
    self, Completion, Fault, Opcode, Outcome, RUN_PAGES_MAX, Refusal, Shape, Submission,
};

/// The name of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The pool.
    pub pool: PoolId,
    /// The object in it.
    pub object: ObjectId,
    /// The page in the object.
    pub index: PageIndex,
}

/// The outcome of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The page is stored.
    Stored,
    /// The page is stored in place of an older one.
    Replaced,
    /// The page is not stored, and an older one is gone.
    Refused(Refusal),
}

/// The outcome of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetOutcome {
    /// The page was there.
    Hit,
    /// The page is not there: it was never stored, or was flushed, evicted, or taken by an earlier get.
    Miss,
    /// The daemon cannot tell now.
    Refused(Refusal),
}

/// The outcome of each page of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    done: u64,
    replaced: u64,
    refusal: Option<Refusal>,
}

impl RunOutcome {
    /// Returns whether page `n` of the run was stored, or hit.
    pub fn is_done(&self, n: usize) -> bool {
        n < u64::BITS as usize && self.done >> n & 1 == 1
    }

    /// Returns whether page `n` of a put replaced an older one.
    pub fn has_replaced(&self, n: usize) -> bool {
        n < u64::BITS as usize && self.replaced >> n & 1 == 1
    }

    /// How many pages were stored, or hit.
    pub fn done_count(&self) -> usize {
        self.done.count_ones() as usize
    }

    /// Why the first refused page was refused. `None` if no page was.
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

    pub(super) fn put(&self) -> PutOutcome {
        match (self.refusal, self.has_replaced(0)) {
            (Some(refusal), _) => PutOutcome::Refused(refusal),
            (None, true) => PutOutcome::Replaced,
            (None, false) => PutOutcome::Stored,
        }
    }

    pub(super) fn get(&self) -> GetOutcome {
        match (self.refusal, self.is_done(0)) {
            (_, true) => GetOutcome::Hit,
            (Some(refusal), false) => GetOutcome::Refused(refusal),
            (None, false) => GetOutcome::Miss,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection is closed, and with it every pool of it that had no name. Connect again, and treat what was
    /// stored as missed.
    #[error("the connection is over: {0}")]
    Gone(#[from] CloseReason),
    /// The daemon understood the call and refused it. It may accept it later.
    #[error("the daemon refused: {0}")]
    Refused(#[from] Refusal),
    /// The call makes no sense. Do not repeat it.
    #[error("the call makes no sense: {0}")]
    Faulty(#[from] Fault),
    /// Another process connected, and this one was forked from it and shares its ring's memory. Connect in this
    /// process, too.
    #[error("another process opened this ring and forked this one: connect in this process, too")]
    Forked,
    /// This version does not know the daemon's answer.
    #[error("the daemon's answer makes no sense to this version")]
    Garbled,
}

pub(super) fn run_submission(opcode: Opcode, first: Key, count: u32, page_slot: u32) -> Submission {
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

/// The number of pages of a run, if one request may have so many.
pub(super) fn run_count(pages: usize, shape: Shape) -> Result<u32, Fault> {
    let count = u32::try_from(pages).map_err(|_| Fault::Run)?;
    match count {
        _ if !(1..=RUN_PAGES_MAX).contains(&count) => Err(Fault::Run),
        _ if !shape.has_slots(0, count) => Err(Fault::PageSlots),
        _ => Ok(count),
    }
}

pub(super) fn run_outcome(completion: &Completion) -> Result<RunOutcome, CallError> {
    let refusal = match outcome_of(completion)? {
        Outcome::Done => None,
        Outcome::Refused(refusal) => Some(refusal),
        Outcome::Faulty(fault) => return Err(fault.into()),
    };
    Ok(RunOutcome {
        done: completion.first,
        replaced: completion.second,
        refusal,
    })
}

pub(super) fn pool_of(completion: &Completion) -> Result<PoolId, CallError> {
    check_done(completion).map(|()| layout::pool_of(completion.first))
}

pub(super) fn check_done(completion: &Completion) -> Result<(), CallError> {
    match outcome_of(completion)? {
        Outcome::Done => Ok(()),
        Outcome::Refused(refusal) => Err(refusal.into()),
        Outcome::Faulty(fault) => Err(fault.into()),
    }
}

fn outcome_of(completion: &Completion) -> Result<Outcome, CallError> {
    Outcome::of(completion.outcome).ok_or(CallError::Garbled)
}
