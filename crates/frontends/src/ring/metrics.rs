//! What a tenant's rings count.

use sublet_client::ring::layout::{Completion, Opcode, Outcome};

use crate::figures::{Figure, figures};

figures! {
    /// What all workers counted for one tenant's rings since the start.
    at once {
        /// Connections that are open now.
        connections,
        /// Connections that were made.
        connections_made,
        /// Connections refused because all places were taken.
        refused_full,
        /// Connections refused because of their user.
        refused_uid,
        /// Connections refused for want of memory or descriptors.
        refused_exhausted,
        /// Connections that ended because their ring held garbage, or their socket chatter.
        ended_garbage,
        /// Times that a client rang.
        bells_heard,
        /// Clients' doorbells rung.
        bells_rung,
    }
    by turns {
        /// Entries that were answered.
        entries,
        /// Entries that made no sense.
        faults,
    }
    and operations: Operations, OperationTally
}

macro_rules! operations {
    ($($(#[$doc:meta])* $operation:ident: $verb:literal $outcome:literal,)*) => {
        /// A verb, and what came of it. Pages are counted one by one; what made no sense, by the entry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($(#[$doc])* $operation,)*
        }

        impl Operation {
            /// Every one, in their order.
            pub const ALL: &[Operation] = &[$(Operation::$operation,)*];

            /// Its verb.
            pub fn verb(self) -> &'static str {
                match self {
                    $(Operation::$operation => $verb,)*
                }
            }

            /// What came of it.
            pub fn outcome(self) -> &'static str {
                match self {
                    $(Operation::$operation => $outcome,)*
                }
            }
        }
    };
}

operations! {
    /// A page was stored.
    PutStored: "put" "stored",
    /// A page was stored in place of an older one.
    PutReplaced: "put" "replaced",
    /// A page was refused.
    PutRefused: "put" "refused",
    /// A put that makes no sense.
    PutFaulty: "put" "faulty",
    /// A page was there.
    GetHit: "get" "hit",
    /// A page was not there.
    GetMissed: "get" "missed",
    /// A page could not be read.
    GetRefused: "get" "refused",
    /// A get that makes no sense.
    GetFaulty: "get" "faulty",
    /// A page was forgotten.
    FlushPageDone: "flush_page" "done",
    /// A flush of pages that makes no sense.
    FlushPageFaulty: "flush_page" "faulty",
    /// An object was forgotten.
    FlushObjectDone: "flush_object" "done",
    /// A flush of an object that makes no sense.
    FlushObjectFaulty: "flush_object" "faulty",
    /// A pool was made or joined.
    CreatePoolDone: "create_pool" "done",
    /// A pool was refused.
    CreatePoolRefused: "create_pool" "refused",
    /// A pool that makes no sense.
    CreatePoolFaulty: "create_pool" "faulty",
    /// A pool was forgotten.
    DestroyPoolDone: "destroy_pool" "done",
    /// The end of a pool that is none.
    DestroyPoolFaulty: "destroy_pool" "faulty",
    /// A verb that there is not.
    UnknownFaulty: "unknown" "faulty",
}

/// How often each operation was.
#[derive(Debug, Default)]
pub(super) struct Operations([Figure; Operation::ALL.len()]);

/// The same in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationTally([u64; Operation::ALL.len()]);

impl Operations {
    fn count(&self, tally: OperationTally) {
        let counted = self.0.iter().zip(tally.0).filter(|(_, n)| *n > 0);
        counted.for_each(|(figure, n)| figure.add(n));
    }
}

impl Tally {
    /// `n` more of an operation.
    pub(super) fn add(&mut self, operation: Operation, n: u32) {
        self.operations.0[operation as usize] += u64::from(n);
    }

    /// Counts an entry by its answer. Its pages are counted where they are put, got and flushed.
    pub(super) fn answered(&mut self, completion: &Completion) {
        self.entries += 1;
        let opcode = Opcode::of(completion.opcode);
        let operation = match Outcome::of(completion.outcome) {
            Some(Outcome::Faulty(_)) => {
                self.faults += 1;
                faulty(opcode)
            }
            Some(Outcome::Refused(_)) if opcode == Some(Opcode::CreatePool) => {
                Operation::CreatePoolRefused
            }
            _ => match opcode {
                Some(Opcode::FlushObject) => Operation::FlushObjectDone,
                Some(Opcode::CreatePool) => Operation::CreatePoolDone,
                Some(Opcode::DestroyPool) => Operation::DestroyPoolDone,
                _ => return,
            },
        };
        self.add(operation, 1);
    }
}

fn faulty(opcode: Option<Opcode>) -> Operation {
    match opcode {
        Some(Opcode::Put) => Operation::PutFaulty,
        Some(Opcode::Get) => Operation::GetFaulty,
        Some(Opcode::FlushPage) => Operation::FlushPageFaulty,
        Some(Opcode::FlushObject) => Operation::FlushObjectFaulty,
        Some(Opcode::CreatePool) => Operation::CreatePoolFaulty,
        Some(Opcode::DestroyPool) => Operation::DestroyPoolFaulty,
        None => Operation::UnknownFaulty,
    }
}

impl Figures {
    /// How often this came of that verb.
    pub fn operation(&self, operation: Operation) -> u64 {
        self.operations.0[operation as usize].get()
    }
}
