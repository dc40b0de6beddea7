//! Figures that many threads change, and the sets of figures of the protocols.
//!
//! Threads count some figures of a protocol at once. A turn of a connection or a queue counts the others by itself
//! first, and adds them at its end.

use std::sync::atomic::{AtomicU64, Ordering};

/// A figure that many threads change.
#[derive(Debug, Default)]
pub struct AtomicFigure(AtomicU64);

impl AtomicFigure {
    /// Adds one. Returns the figure before that.
    pub fn bump(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Subtracts one.
    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets the figure to `n`, whatever it was.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Returns the figure.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes the type of a protocol's figures, and the type of the tally of those that a turn counts by itself.
///
/// The part after `and` is a set of figures of its own: it has one type for the figures and one for the tally. The type
/// of the figures has a method `count`, which takes the tally.
macro_rules! figures {
    (
        $(#[$all:meta])*
        $all_figures:ident, $turn_tally:ident;
        at once { $($(#[$doc:meta])* $name:ident),* $(,)? }
        by turns { $($(#[$turn_doc:meta])* $turn:ident),* $(,)? }
        $(and $more:ident: $figures:ty, $tally:ty)?
    ) => {
        $(#[$all])*
        #[derive(Debug, Default)]
        pub struct $all_figures {
            $($(#[$doc])* pub $name: $crate::figures::AtomicFigure,)*
            $($(#[$turn_doc])* pub $turn: $crate::figures::AtomicFigure,)*
            $(pub(super) $more: $figures,)?
        }

        /// What one turn counts by itself, so that it touches the shared figures only once.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct $turn_tally {
            $(pub(super) $turn: u64,)*
            $(pub(super) $more: $tally,)?
        }

        impl $all_figures {
            /// Returns every figure with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![
                    $((stringify!($name), self.$name.get()),)*
                    $((stringify!($turn), self.$turn.get()),)*
                ]
            }

            /// Adds what a turn counted.
            pub(super) fn count(&self, tally: $turn_tally) {
                $(if tally.$turn > 0 {
                    self.$turn.add(tally.$turn);
                })*
                $(self.$more.count(tally.$more);)?
            }
        }
    };
}

pub(crate) use figures;
