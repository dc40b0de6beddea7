//! Memory that went from one tenant to another, and how much of it came back soon. A policy that moves memory well has
//! little to undo.

use std::collections::{BTreeMap, VecDeque};

use sublet_types::{Pages, Second, TenantId};

/// Memory that comes back to its giver within this many seconds was moved in vain.
pub(crate) const UNDONE_WITHIN_SECS: u32 = 600;

/// What each tenant gave to others lately, one row per second in which it gave, and sums since the start.
#[derive(Clone, Debug, Default)]
pub struct TransferHistory {
    given: BTreeMap<TenantId, VecDeque<(Second, Pages)>>,
    moved: Pages,
    undone: Pages,
}

impl TransferHistory {
    /// Records that a tenant gave `pages` to others. What it flushed, or gave to the host, does not count.
    pub fn record_given(&mut self, tenant: TenantId, pages: Pages, now: Second) {
        if pages.0 == 0 {
            return;
        }
        self.moved.0 += pages.0;
        let given = self.given.entry(tenant).or_default();
        forget(given, now);
        match given.back_mut() {
            Some((at, sum)) if *at == now => sum.0 += pages.0,
            _ => given.push_back((now, pages)),
        }
    }

    /// Records that a tenant got `pages` that others had. What it gave before counts as returned with it, the last gift
    /// first.
    pub fn record_gained(&mut self, tenant: TenantId, pages: Pages, now: Second) {
        let Some(given) = self.given.get_mut(&tenant) else {
            return;
        };
        forget(given, now);
        let mut left = pages.0;
        while let Some((_, sum)) = given.back_mut() {
            let back = sum.0.min(left);
            sum.0 -= back;
            left -= back;
            self.undone.0 += back;
            if sum.0 > 0 {
                break;
            }
            given.pop_back();
        }
        if given.is_empty() {
            self.given.remove(&tenant);
        }
    }

    /// What was moved since the start.
    pub fn moved(&self) -> Pages {
        self.moved
    }

    /// The part of that which came back within `UNDONE_WITHIN_SECS`.
    pub fn undone(&self) -> Pages {
        self.undone
    }
}

fn forget(given: &mut VecDeque<(Second, Pages)>, now: Second) {
    let is_old = |(at, _): &(Second, Pages)| now.0.saturating_sub(at.0) > UNDONE_WITHIN_SECS;
    while given.front().is_some_and(is_old) {
        given.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: TenantId = TenantId(1);
    const BEN: TenantId = TenantId(2);

    #[test]
    fn what_comes_back_within_ten_minutes_was_moved_in_vain() {
        let mut moves = TransferHistory::default();
        moves.record_given(ANN, Pages(100), Second(10));
        moves.record_gained(BEN, Pages(100), Second(10));
        assert_eq!((moves.moved(), moves.undone()), (Pages(100), Pages(0)));
        moves.record_gained(ANN, Pages(30), Second(500));
        assert_eq!(moves.undone(), Pages(30));
        moves.record_gained(ANN, Pages(30), Second(611));
        assert_eq!(moves.undone(), Pages(30), "the rest left too long ago");
    }

    #[test]
    fn nothing_comes_back_twice() {
        let mut moves = TransferHistory::default();
        moves.record_given(ANN, Pages(10), Second(1));
        moves.record_given(ANN, Pages(20), Second(1));
        moves.record_given(ANN, Pages(5), Second(2));
        moves.record_gained(ANN, Pages(12), Second(3));
        assert_eq!(moves.undone(), Pages(12));
        moves.record_gained(ANN, Pages(1000), Second(4));
        assert_eq!((moves.moved(), moves.undone()), (Pages(35), Pages(35)));
        moves.record_gained(ANN, Pages(1000), Second(5));
        assert_eq!(moves.undone(), Pages(35));
    }
}
