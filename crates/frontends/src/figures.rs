//! Figures that many threads move, and those of a protocol: which are counted at once, and which a turn of a connection or a queue counts by itself first.

use std::sync::atomic::{AtomicU64, Ordering};

/// A figure that many threads move.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// One more; says how many there were.
    pub fn bump(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// One less.
    pub(crate) fn drop_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// What it is now, whatever it was.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes a protocol's `Figures`, and the `Tally` of those that a turn counts by itself. What is `and` counted has a type for each of both;
/// the figures' one has `count`, which takes the tally's.
macro_rules! figures {
    (
        $(#[$all:meta])*
        at once { $($(#[$doc:meta])* $name:ident),* $(,)? }
        by turns { $($(#[$turn_doc:meta])* $turn:ident),* $(,)? }
        $(and $more:ident: $figures:ty, $tally:ty)?
    ) => {
        $(#[$all])*
        #[derive(Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: $crate::figures::Figure,)*
            $($(#[$turn_doc])* pub $turn: $crate::figures::Figure,)*
            $(pub(super) $more: $figures,)?
        }

        /// What one turn counts by itself, since many threads move a figure.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Tally {
            $(pub(super) $turn: u64,)*
            $(pub(super) $more: $tally,)?
        }

        impl Figures {
            /// Every figure with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![
                    $((stringify!($name), self.$name.get()),)*
                    $((stringify!($turn), self.$turn.get()),)*
                ]
            }

            /// Adds what a turn counted.
            pub(super) fn count(&self, tally: Tally) {
                $(if tally.$turn > 0 {
                    self.$turn.add(tally.$turn);
                })*
                $(self.$more.count(tally.$more);)?
            }
        }
    };
}

pub(crate) use figures;
