//! Parses entries: what a submission asks for, once everything in it is checked.

use sublet_client::ring::layout::{self, Completion, Opcode, Outcome, RUN_PAGES_MAX, Submission};
use sublet_client::ring::{Fault, Key, SlotRun};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

/// Pages at consecutive indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    first: Key,
    /// The last index. With it, a run that ends at the largest number is no special case.
    last: u32,
}

impl PageRun {
    /// The keys of the pages.
    pub fn keys(self) -> impl Iterator<Item = Key> {
        let indices = self.first.index.0..=self.last;
        indices.map(move |index| Key {
            index: PageIndex(index),
            ..self.first
        })
    }

    /// How many pages.
    pub fn count(self) -> u32 {
        self.last - self.first.index.0 + 1
    }

    /// The pages' pool.
    pub fn pool(self) -> PoolId {
        self.first.pool
    }
}

/// What a submission asks for. Its pool is not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Store these pages from these slots.
    Put(PageRun, SlotRun),
    /// Fetch these pages into these slots.
    Get(PageRun, SlotRun),
    /// Flush these pages.
    FlushPage(PageRun),
    /// Flush an object.
    FlushObject(PoolId, ObjectId),
    /// Make a pool, or join the shared pool of that name.
    CreatePool(PoolFlags, Option<SharedName>),
    /// Destroy a pool.
    DestroyPool(PoolId),
}

/// Parses a submission. `slots` checks that the ring has these page slots.
///
/// # Errors
///
/// The first thing that is wrong. Every field comes from a stranger.
pub fn parse(
    submission: &Submission,
    slots: impl FnOnce(u32, u32) -> Option<SlotRun>,
) -> Result<Request, Fault> {
    let opcode = Opcode::of(submission.opcode).ok_or(Fault::Opcode)?;
    if opcode != Opcode::CreatePool && submission.flags != 0 {
        return Err(Fault::Flags);
    }
    if *submission != used_by(opcode, submission) {
        return Err(Fault::Reserved);
    }
    let pool = layout::pool_of(submission.pool);
    Ok(match opcode {
        Opcode::Put => Request::Put(run(submission)?, slots_of(submission, slots)?),
        Opcode::Get => Request::Get(run(submission)?, slots_of(submission, slots)?),
        Opcode::FlushPage => Request::FlushPage(run(submission)?),
        Opcode::FlushObject => Request::FlushObject(pool, ObjectId(submission.object)),
        Opcode::CreatePool => creation(submission)?,
        Opcode::DestroyPool => Request::DestroyPool(pool),
    })
}

/// The submission with only the fields that its verb uses.
fn used_by(opcode: Opcode, submission: &Submission) -> Submission {
    let named = Submission {
        opcode: submission.opcode,
        token: submission.token,
        ..Submission::default()
    };
    let of_pool = Submission {
        pool: submission.pool,
        ..named
    };
    let of_object = Submission {
        object: submission.object,
        ..of_pool
    };
    let of_run = Submission {
        index: submission.index,
        count: submission.count,
        ..of_object
    };
    match opcode {
        Opcode::Put | Opcode::Get => Submission {
            page_slot: submission.page_slot,
            ..of_run
        },
        Opcode::FlushPage => of_run,
        Opcode::FlushObject => of_object,
        Opcode::DestroyPool => of_pool,
        Opcode::CreatePool => Submission {
            flags: submission.flags,
            shared: submission.shared,
            ..named
        },
    }
}

fn run(submission: &Submission) -> Result<PageRun, Fault> {
    let (first, count) = (submission.index, submission.count);
    if !(1..=RUN_PAGES_MAX).contains(&count) {
        return Err(Fault::Run);
    }
    let first_key = Key {
        pool: layout::pool_of(submission.pool),
        object: ObjectId(submission.object),
        index: PageIndex(first),
    };
    Ok(PageRun {
        first: first_key,
        last: first.checked_add(count - 1).ok_or(Fault::Run)?,
    })
}

fn slots_of(
    submission: &Submission,
    slots: impl FnOnce(u32, u32) -> Option<SlotRun>,
) -> Result<SlotRun, Fault> {
    slots(submission.page_slot, submission.count).ok_or(Fault::PageSlots)
}

fn creation(submission: &Submission) -> Result<Request, Fault> {
    let flags = layout::flags_of(submission.flags).ok_or(Fault::Flags)?;
    let shared = match submission.shared {
        0 => None,
        name => Some(SharedName(name)),
    };
    if flags.shared && flags.persistent {
        return Err(Fault::FlagsTogether);
    }
    if flags.shared != shared.is_some() {
        return Err(Fault::SharedName);
    }
    Ok(Request::CreatePool(flags, shared))
}

/// The completion that answers a submission with `outcome`.
pub fn completion(submission: &Submission, outcome: Outcome) -> Completion {
    Completion {
        token: submission.token,
        opcode: submission.opcode,
        outcome: outcome.number(),
        ..Completion::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sublet_client::ring::{DaemonEnd, Shape};

    fn read(submission: Submission) -> Result<Request, Fault> {
        let shape = Shape::new(8, 100).expect("a fine shape");
        let (end, _) = DaemonEnd::create(shape).expect("a ring");
        parse(&submission, |first, count| end.slots(first, count))
    }

    fn put() -> Submission {
        Submission {
            opcode: Opcode::Put as u16,
            count: 3,
            token: 1,
            pool: 7 << 32 | 5,
            object: u64::MAX,
            index: u32::MAX - 2,
            page_slot: 97,
            ..Submission::default()
        }
    }

    fn create(flags: u16, shared: u128) -> Submission {
        Submission {
            opcode: Opcode::CreatePool as u16,
            flags,
            shared,
            ..Submission::default()
        }
    }

    #[test]
    fn the_last_pages_and_slots_can_be_named() {
        let Ok(Request::Put(pages, slots)) = read(put()) else {
            panic!("a fine put");
        };
        let keys: Vec<Key> = pages.keys().collect();
        let indices: Vec<u32> = keys.iter().map(|key| key.index.0).collect();
        assert_eq!(indices, [u32::MAX - 2, u32::MAX - 1, u32::MAX]);
        assert_eq!(slots.count(), 3);
        let pool = PoolId {
            slot: 5,
            generation: 7,
        };
        assert!(keys.iter().all(|key| key.pool == pool));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let changed = |change: fn(&mut Submission)| {
            let mut submission = put();
            change(&mut submission);
            read(submission)
        };
        assert_eq!(changed(|s| s.count = 0), Err(Fault::Run));
        assert_eq!(changed(|s| s.count = 65), Err(Fault::Run));
        assert_eq!(changed(|s| s.count = u32::MAX), Err(Fault::Run));
        assert_eq!(changed(|s| s.index = u32::MAX), Err(Fault::Run));
        assert_eq!(changed(|s| s.page_slot = 98), Err(Fault::PageSlots));
        assert_eq!(changed(|s| s.page_slot = u32::MAX), Err(Fault::PageSlots));
        assert_eq!(changed(|s| s.page_slot = 1 << 31), Err(Fault::PageSlots));
        assert_eq!(changed(|s| s.flags = 4), Err(Fault::Flags));
        assert_eq!(changed(|s| s.reserved = 1), Err(Fault::Reserved));
        assert_eq!(changed(|s| s.shared = 1), Err(Fault::Reserved));
        for opcode in [0, 7, u16::MAX] {
            let unknown = read(Submission { opcode, ..put() });
            assert_eq!(unknown, Err(Fault::Opcode));
        }
        for opcode in [Opcode::FlushPage, Opcode::FlushObject, Opcode::DestroyPool] {
            let opcode = opcode as u16;
            assert_eq!(read(Submission { opcode, ..put() }), Err(Fault::Reserved));
        }
    }

    #[test]
    fn pools_are_made_as_their_flags_say_or_not_at_all() {
        let flags = |persistent, shared, keeping| PoolFlags {
            persistent,
            shared,
            keeping,
        };
        let made = |flags, name: Option<u128>| Ok(Request::CreatePool(flags, name.map(SharedName)));
        assert_eq!(read(create(0, 0)), made(flags(false, false, false), None));
        assert_eq!(read(create(5, 0)), made(flags(true, false, true), None));
        assert_eq!(read(create(2, 9)), made(flags(false, true, false), Some(9)));
        assert_eq!(read(create(3, 9)), Err(Fault::FlagsTogether));
        assert_eq!(read(create(2, 0)), Err(Fault::SharedName));
        assert_eq!(read(create(0, 9)), Err(Fault::SharedName));
        assert_eq!(read(create(8, 0)), Err(Fault::Flags));
        let with_pool = Submission {
            pool: 1,
            ..create(0, 0)
        };
        assert_eq!(read(with_pool), Err(Fault::Reserved));
    }
}
