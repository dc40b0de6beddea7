//! What the daemon counts for each tenant's rings.

use sublet_client::ring::layout::{Completion, Opcode, Outcome};

use crate::figures::{AtomicFigure, figures};

figures! {
    /// What all workers counted for one tenant's rings since the start.
    RingFigures, RingTally;
    at once {
        /// Connections that are open now.
        connections,
        /// Connections that were made.
        connections_made,
        /// Connections refused because the listener was full.
        refused_full,
        /// Connections refused because their user may not connect.
        refused_uid,
        /// Connections refused because the daemon had no memory or descriptor left.
        refused_exhausted,
        /// Connections that ended because their ring held garbage, or because their client sent bytes after the
        /// greeting.
        ended_garbage,
        /// How often a client rang the daemon's doorbell.
        bells_heard,
        /// How often the daemon rang a client's doorbell.
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
        /// A verb and its outcome. Pages are counted one by one. What makes no sense is counted per entry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($(#[$doc])* $operation,)*
        }

        impl Operation {
            /// All operations, in order.
            pub const ALL: &[Operation] = &[$(Operation::$operation,)*];

            /// The operation's verb.
            pub fn verb(self) -> &'static str {
                match self {
                    $(Operation::$operation => $verb,)*
                }
            }

            /// The operation's outcome.
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
    /// A put made no sense.
    PutFaulty: "put" "faulty",
    /// A page was there.
    GetHit: "get" "hit",
    /// A page was not there.
    GetMissed: "get" "missed",
    /// A page could not be read.
    GetRefused: "get" "refused",
    /// A get made no sense.
    GetFaulty: "get" "faulty",
    /// A page was flushed.
    FlushPageDone: "flush_page" "done",
    /// A flush of pages made no sense.
    FlushPageFaulty: "flush_page" "faulty",
    /// An object was flushed.
    FlushObjectDone: "flush_object" "done",
    /// A flush of an object made no sense.
    FlushObjectFaulty: "flush_object" "faulty",
    /// A pool was made or joined.
    CreatePoolDone: "create_pool" "done",
    /// A pool was refused.
    CreatePoolRefused: "create_pool" "refused",
    /// A request for a pool made no sense.
    CreatePoolFaulty: "create_pool" "faulty",
    /// A pool was destroyed.
    DestroyPoolDone: "destroy_pool" "done",
    /// A client tried to destroy a pool that it does not have.
    DestroyPoolFaulty: "destroy_pool" "faulty",
    /// The verb is unknown.
    UnknownFaulty: "unknown" "faulty",
}

/// How often each operation happened.
#[derive(Debug, Default)]
pub(super) struct Operations([AtomicFigure; Operation::ALL.len()]);

/// The same for one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationTally([u64; Operation::ALL.len()]);

impl Operations {
    fn count(&self, tally: OperationTally) {
        let counted = self.0.iter().zip(tally.0).filter(|(_, n)| *n > 0);
        counted.for_each(|(figure, n)| figure.add(n));
    }
}

impl RingTally {
    /// Counts `n` more of an operation.
    pub(super) fn add(&mut self, operation: Operation, n: u32) {
        self.operations.0[operation as usize] += u64::from(n);
    }

    /// Counts an entry by its completion. Its pages are counted where they are put, got and flushed.
    pub(super) fn record_completion(&mut self, completion: &Completion) {
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

impl RingFigures {
    /// How often an operation happened.
    pub fn operation(&self, operation: Operation) -> u64 {
        self.operations.0[operation as usize].get()
    }
}
