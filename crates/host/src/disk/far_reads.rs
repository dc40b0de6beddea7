//! A disk's reads of pages that lenders have. They wait side by side, as reads of the backing do.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use rustix::event::PollFlags;
use sublet_store::{AwayTicket, PageSending};

use super::far_fetch::FarFetch;
use crate::peers::page_fetcher::{
    FETCHES_MAX, FetchId, FetchOutcome, PageFetcher, SocketReadiness,
};

/// What a read of the backing is expected to take, until some were measured.
pub(super) const MISS_EXPECTED: Duration = Duration::from_millis(1);

/// The reads of a disk's thread from lenders.
pub(super) struct FarReads {
    fetcher: RefCell<PageFetcher>,
    sockets: Cell<SocketReadiness>,
    sending: Cell<PageSending>,
    waiting: RefCell<Vec<(FetchId, Waker)>>,
    /// Tasks that begin when others have their pages.
    queued: RefCell<Vec<Waker>>,
    /// Lists of pages that no task uses.
    pub(super) spare: RefCell<Vec<FarFetch>>,
}

impl FarReads {
    /// Reads by a fetcher that only this thread has.
    pub(super) fn new(fetcher: PageFetcher) -> FarReads {
        FarReads {
            fetcher: RefCell::new(fetcher),
            sockets: Cell::new(SocketReadiness::Unknown),
            sending: Cell::default(),
            waiting: RefCell::new(Vec::with_capacity(FETCHES_MAX)),
            queued: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// Fetches pages, at most [`FETCH_PAGES_MAX`](crate::peers::page_fetcher::FETCH_PAGES_MAX). `answer` gets the number
    /// of each ticket, once, and what became of its page. It must not wait for anything.
    pub(super) async fn fetch(
        &self,
        tickets: &[AwayTicket],
        answer: impl FnMut(usize, FetchOutcome<'_>),
    ) {
        let batch = poll_fn(|cx| match self.fetcher.borrow_mut().begin(tickets) {
            Some(batch) => Poll::Ready(batch),
            None => {
                self.queued.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
        poll_fn(|cx| match self.fetcher.borrow().is_settled(batch) {
            true => Poll::Ready(()),
            false => {
                self.waiting.borrow_mut().push((batch, cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        self.fetcher.borrow_mut().take(batch, answer);
        self.queued.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Records that a read of the backing took `took`.
    pub(super) fn missed(&self, took: Duration) {
        self.fetcher.borrow_mut().missed(took);
    }

    /// Sends and receives, and wakes the tasks whose pages have come or are late. Returns how long nothing is to be done
    /// unless a socket is ready. That is zero if a task was woken.
    pub(super) fn poll(&self) -> Option<Duration> {
        let mut fetcher = self.fetcher.borrow_mut();
        let next = fetcher.poll(self.sockets.replace(SocketReadiness::Unknown));
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.len();
        waiting.retain(|(batch, waker)| {
            let is_settled = fetcher.is_settled(*batch);
            if is_settled {
                waker.wake_by_ref();
            }
            !is_settled
        });
        match waiting.len() < before {
            true => Some(Duration::ZERO),
            false => next.map(|at| at.saturating_duration_since(Instant::now())),
        }
    }

    /// Returns whether pages may be sent to lenders, if that has changed since the last call.
    pub(super) fn sending_change(&self) -> Option<PageSending> {
        let now = self.fetcher.borrow().sending(Instant::now());
        (self.sending.replace(now) != now).then_some(now)
    }

    /// Calls `wait` with the sockets of the lenders and what to wait for at each. It returns whether one is ready.
    pub(super) fn with_sockets(
        &self,
        wait: impl FnOnce(&mut dyn Iterator<Item = (BorrowedFd<'_>, PollFlags)>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let is_ready = wait(&mut self.fetcher.borrow().sockets())?;
        self.sockets.set(match is_ready {
            true => SocketReadiness::Ready,
            false => SocketReadiness::NotReady,
        });
        Ok(())
    }
}
