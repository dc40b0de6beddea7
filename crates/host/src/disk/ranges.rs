//! Which pages a disk's thread is at work on: what overlaps waits, in the order in which it came.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Who holds or waits without anything being allocated.
const ROOM: usize = 128;

/// The ranges of pages that are held, and who waits.
pub(super) struct Ranges(RefCell<Inner>);

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges(RefCell::new(Inner {
            held: Vec::with_capacity(ROOM),
            waiting: VecDeque::with_capacity(ROOM),
            tickets: 0,
        }))
    }
}

struct Inner {
    held: Vec<Range<u64>>,
    waiting: VecDeque<Waiting>,
    tickets: u64,
}

struct Waiting {
    ticket: u64,
    range: Range<u64>,
    waker: Waker,
}

/// A range that is held until this goes.
pub(super) struct Held {
    ranges: Rc<Ranges>,
    range: Range<u64>,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Ranges {
    /// Waits until nobody holds any of these pages, nor waits for them since longer, and holds them.
    pub(super) async fn hold(self: &Rc<Ranges>, range: Range<u64>) -> Held {
        let mut ticket = None;
        poll_fn(|turn| self.0.borrow_mut().poll(&range, &mut ticket, turn)).await;
        Held {
            ranges: Rc::clone(self),
            range,
        }
    }

    /// Holds them, if that needs no waiting.
    pub(super) fn try_hold(self: &Rc<Ranges>, range: Range<u64>) -> Option<Held> {
        let mut inner = self.0.borrow_mut();
        inner.is_free(&range, None).then(|| {
            inner.held.push(range.clone());
            Held {
                ranges: Rc::clone(self),
                range,
            }
        })
    }
}

impl Inner {
    /// Whether a range is nobody's; of those who wait, those before `ticket` count.
    fn is_free(&self, range: &Range<u64>, ticket: Option<u64>) -> bool {
        let earlier = |waiting: &&Waiting| ticket.is_none_or(|ticket| waiting.ticket < ticket);
        let mut before = self.waiting.iter().take_while(earlier);
        !self.held.iter().any(|held| overlap(held, range))
            && !before.any(|waiting| overlap(&waiting.range, range))
    }

    fn poll(
        &mut self,
        range: &Range<u64>,
        ticket: &mut Option<u64>,
        turn: &mut Context<'_>,
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
            self.waiting.push_back(Waiting {
                ticket: self.tickets,
                range: range.clone(),
                waker: turn.waker().clone(),
            });
        }
        Poll::Pending
    }
}

impl Drop for Held {
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

    /// Who overlaps has its turn in the order in which it came; who does not goes at once.
    #[test]
    fn what_overlaps_waits_for_its_turn() {
        let ranges = Rc::new(Ranges::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut pool = LocalPool::new();
        let first = ranges.try_hold(0..8).expect("free");
        for (name, range) in [("long", 4..20), ("apart", 30..31), ("late", 10..12)] {
            let (ranges, order) = (Rc::clone(&ranges), Rc::clone(&order));
            let task = async move {
                let _held = ranges.hold(range).await;
                order.borrow_mut().push(name);
            };
            pool.spawner().spawn_local(task).expect("spawned");
        }
        pool.run_until_stalled();
        assert_eq!(*order.borrow(), ["apart"]);
        assert!(ranges.try_hold(7..9).is_none());
        drop(first);
        pool.run_until_stalled();
        assert_eq!(*order.borrow(), ["apart", "long", "late"]);
        assert!(ranges.try_hold(0..100).is_some());
    }
}
