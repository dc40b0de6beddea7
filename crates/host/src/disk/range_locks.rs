//! The pages that a disk's tasks work on. Requests that overlap wait, in the order in which they came.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// How many may hold or wait without an allocation.
const ROOM: usize = 128;

/// The ranges of pages that are held, and the tasks that wait.
pub(super) struct RangeLocks(RefCell<RangeLocksInner>);

impl Default for RangeLocks {
    fn default() -> RangeLocks {
        RangeLocks(RefCell::new(RangeLocksInner {
            held: Vec::with_capacity(ROOM),
            waiting: VecDeque::with_capacity(ROOM),
            tickets: 0,
        }))
    }
}

struct RangeLocksInner {
    held: Vec<Range<u64>>,
    waiting: VecDeque<RangeWaiter>,
    tickets: u64,
}

struct RangeWaiter {
    ticket: u64,
    range: Range<u64>,
    waker: Waker,
}

/// A range that is held until this is dropped.
pub(super) struct RangeGuard {
    ranges: Rc<RangeLocks>,
    range: Range<u64>,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl RangeLocks {
    /// Waits until no task holds any of these pages or has waited for them longer, and then holds them.
    pub(super) async fn lock(self: &Rc<RangeLocks>, range: Range<u64>) -> RangeGuard {
        let mut ticket = None;
        poll_fn(|cx| self.0.borrow_mut().poll(&range, &mut ticket, cx)).await;
        RangeGuard {
            ranges: Rc::clone(self),
            range,
        }
    }

    /// Holds them, if that needs no wait.
    pub(super) fn try_lock(self: &Rc<RangeLocks>, range: Range<u64>) -> Option<RangeGuard> {
        let mut inner = self.0.borrow_mut();
        inner.is_free(&range, None).then(|| {
            inner.held.push(range.clone());
            RangeGuard {
                ranges: Rc::clone(self),
                range,
            }
        })
    }
}

impl RangeLocksInner {
    /// Returns whether a range is free. Of the waiting tasks, those before `ticket` count.
    fn is_free(&self, range: &Range<u64>, ticket: Option<u64>) -> bool {
        let earlier = |waiting: &&RangeWaiter| ticket.is_none_or(|ticket| waiting.ticket < ticket);
        let mut before = self.waiting.iter().take_while(earlier);
        !self.held.iter().any(|held| overlap(held, range))
            && !before.any(|waiting| overlap(&waiting.range, range))
    }

    fn poll(
        &mut self,
        range: &Range<u64>,
        ticket: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_free(range, *ticket) {
            if let Some(ticket) = ticket {
                self.waiting.retain(|waiting| waiting.ticket != *ticket);
            }
            self.held.push(range.clone());
            return Poll::Ready(());
        }
        if ticket.is_none() {
            self.tickets += 1;
            *ticket = Some(self.tickets);
            self.waiting.push_back(RangeWaiter {
                ticket: self.tickets,
                range: range.clone(),
                waker: cx.waker().clone(),
            });
        }
        Poll::Pending
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        let mut inner = self.ranges.0.borrow_mut();
        if let Some(at) = inner.held.iter().position(|held| *held == self.range) {
            inner.held.swap_remove(at);
        }
        for waiting in &inner.waiting {
            if overlap(&waiting.range, &self.range) {
                waiting.waker.wake_by_ref();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::LocalPool;
    use futures_util::task::LocalSpawnExt;

    use super::*;

    /// Requests that overlap have their turn in the order in which they came. Others go at once.
    #[test]
    fn what_overlaps_waits_for_its_turn() {
        let ranges = Rc::new(RangeLocks::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut pool = LocalPool::new();
        let first = ranges.try_lock(0..8).expect("free");
        for (name, range) in [("long", 4..20), ("apart", 30..31), ("late", 10..12)] {
            let (ranges, order) = (Rc::clone(&ranges), Rc::clone(&order));
            let task = async move {
                let _held = ranges.lock(range).await;
                order.borrow_mut().push(name);
            };
            pool.spawner().spawn_local(task).expect("spawned");
        }
        pool.run_until_stalled();
        assert_eq!(*order.borrow(), ["apart"]);
        assert!(ranges.try_lock(7..9).is_none());
        drop(first);
        pool.run_until_stalled();
        assert_eq!(*order.borrow(), ["apart", "long", "late"]);
        assert!(ranges.try_lock(0..100).is_some());
    }
}
