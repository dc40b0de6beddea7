//! What the policy in force asks of other hosts, for the thread that borrows.

use std::sync::atomic::{AtomicU64, Ordering};

use sublet_types::Pages;

/// What a policy that asks nothing leaves there. No host has so many pages.
const NOTHING_ASKED: u64 = u64::MAX;

/// What the policy in force asks of other hosts. The Memory Manager writes it.
#[derive(Debug)]
pub struct PolicyWish(AtomicU64);

impl Default for PolicyWish {
    fn default() -> PolicyWish {
        PolicyWish(AtomicU64::new(NOTHING_ASKED))
    }
}

impl PolicyWish {
    /// Sets what the policy asks beyond what tenants may hold now. `None` if the policy leaves it to the host's own
    /// figure.
    pub fn set(&self, wanted: Option<Pages>) {
        let pages = wanted.map_or(NOTHING_ASKED, |wanted| wanted.0);
        self.0.store(pages, Ordering::Relaxed);
    }

    /// What the policy asked last.
    pub fn get(&self) -> Option<Pages> {
        let pages = self.0.load(Ordering::Relaxed);
        (pages != NOTHING_ASKED).then_some(Pages(pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_wants_nothing_is_not_one_that_asks_nothing() {
        let wish = PolicyWish::default();
        assert_eq!(wish.get(), None);
        for wanted in [Some(Pages(0)), Some(Pages(7)), None] {
            wish.set(wanted);
            assert_eq!(wish.get(), wanted);
        }
    }
}
