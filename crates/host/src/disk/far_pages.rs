//! What a disk's tasks do with pages that lenders have, while they hold these pages.

use std::ops::Range;

use sublet_store::{AccessPattern, AwayTicket, GetOutcome, PageKey, PageRun};

use super::disk_thread::DiskThread;
use super::far_fetch::FarFetch;
use super::page_span::{PageSpan, key};
use crate::peers::page_fetcher::{FETCH_PAGES_MAX, FetchOutcome};

/// What pages are fetched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchPurpose {
    /// Somebody waits for them.
    Demand,
    /// Somebody will probably read them soon.
    ReadAhead,
}

impl DiskThread {
    /// The pages from `first` on that memory has, here or at lenders, as many as are fetched at once. `None` if the
    /// backing is to be read for `first`, or the host borrows nothing. A staged page ends the run: if it did not come from
    /// its lender, the backing would have an older one.
    ///
    /// Pages at lenders right before one that only the backing has are read with that one: the client waits for the
    /// backing in any case.
    pub(super) fn pages_in_memory(&self, first: u64, end: u64) -> Option<Range<u64>> {
        self.far.as_ref()?;
        let most = end.min(first + FETCH_PAGES_MAX as u64);
        let is_absent = |page: u64| !self.disk.has_page(&self.tenancy, page);
        let next = (first..most).find(|page| is_absent(*page) || self.is_staged(*page));
        let run = match next {
            Some(next) if !self.is_staged(next) => first..self.end_of_last_here(first..next),
            next => first..next.unwrap_or(most),
        };
        (!run.is_empty()).then_some(run)
    }

    /// The page after the last of a run that is here. If none is, the run's first page.
    fn end_of_last_here(&self, run: Range<u64>) -> u64 {
        let is_here = |page: &u64| self.disk.has_page_here(&self.tenancy, *page);
        let last = run.clone().rev().find(is_here);
        last.map_or(run.start, |last| last + 1)
    }

    /// Reads pages from lenders into a buffer of the span's pages. The result says which did not come.
    pub(super) async fn read_far(
        &self,
        cover: &PageSpan,
        run: Range<u64>,
        room: &mut [u8],
    ) -> FarFetch {
        let mut far = self.acquire_far_fetch();
        for page in run {
            let into = &mut room[cover.page_bytes(page)];
            match self.get_page(page, into) {
                GetOutcome::Hit => self.tally.hits.add(1),
                GetOutcome::Away(ticket) => far.push(page, ticket),
                _ => far.missing.push(page),
            }
        }
        let take = |page, bytes: &[u8]| room[cover.page_bytes(page)].copy_from_slice(bytes);
        self.fetch(&mut far, FetchPurpose::Demand, take).await;
        far.missing.sort_unstable();
        far
    }

    /// Brings pages home that lenders have and somebody will probably read soon, in one message for each lease.
    pub(super) async fn bring_home_ahead(&self, pages: Range<u64>, pattern: AccessPattern) {
        if self.far.is_none() {
            return;
        }
        let mut far = self.acquire_far_fetch();
        let (worker, tenant, now) = self.tenancy.worker_tenant_now();
        for page in pages {
            if let Some(ticket) = worker.away_ticket(tenant, self.key(page), now) {
                far.push(page, ticket);
            }
        }
        // The range is held, so nobody changes the pages meanwhile.
        let put = |page, bytes: &[u8]| {
            let (worker, tenant, now) = self.tenancy.worker_tenant_now();
            let run = PageRun {
                first: self.key(page),
                count: 1,
                pattern,
            };
            worker.put_run(tenant, run, now, |_, frame| frame.write(bytes), |_, _| ());
        };
        self.fetch(&mut far, FetchPurpose::ReadAhead, put).await;
        self.release_far_fetch(Some(far));
    }

    fn acquire_far_fetch(&self) -> FarFetch {
        let spare = self
            .far
            .as_ref()
            .and_then(|far| far.spare.borrow_mut().pop());
        spare.unwrap_or_default()
    }

    /// Keeps a list of pages for later.
    pub(super) fn release_far_fetch(&self, fetch: Option<FarFetch>) {
        if let Some((far, mut fetch)) = self.far.as_ref().zip(fetch) {
            fetch.clear();
            far.spare.borrow_mut().push(fetch);
        }
    }

    /// Gets a page, and copies it.
    fn get_page(&self, page: u64, into: &mut [u8]) -> GetOutcome {
        let (worker, tenant, now) = self.tenancy.worker_tenant_now();
        worker.get_page(tenant, self.key(page), now, |bytes| {
            into.copy_from_slice(bytes);
        })
    }

    fn key(&self, page: u64) -> PageKey {
        key(self.disk.pool, page)
    }

    /// Fetches pages, and gives each that came to `visit`.
    async fn fetch(
        &self,
        fetch: &mut FarFetch,
        purpose: FetchPurpose,
        mut visit: impl FnMut(u64, &[u8]),
    ) {
        let FarFetch {
            pages,
            tickets,
            missing,
        } = fetch;
        let Some(far) = self.far.as_ref().filter(|_| !pages.is_empty()) else {
            return;
        };
        let batches = pages
            .chunks(FETCH_PAGES_MAX)
            .zip(tickets.chunks(FETCH_PAGES_MAX));
        for (pages, tickets) in batches {
            let answer = |n: usize, outcome: FetchOutcome<'_>| {
                let (page, ticket) = (pages[n], &tickets[n]);
                if !self.end_get(page, ticket, outcome, purpose, &mut visit) {
                    missing.push(page);
                }
            };
            far.fetch(tickets, answer).await;
        }
    }

    /// Ends a get by its ticket. Returns whether there was a page.
    fn end_get(
        &self,
        page: u64,
        ticket: &AwayTicket,
        outcome: FetchOutcome<'_>,
        purpose: FetchPurpose,
        visit: &mut impl FnMut(u64, &[u8]),
    ) -> bool {
        let (worker, tenant, now) = self.tenancy.worker_tenant_now();
        let key = self.key(page);
        let mut visit_page = |bytes: &[u8]| visit(page, bytes);
        let ended = match (outcome, purpose) {
            // The page may still be there, and the backing has the same.
            (FetchOutcome::NotAsked, _) => return false,
            (FetchOutcome::Gone(_), _) => worker.gone(tenant, key, ticket, now, visit_page),
            (FetchOutcome::Page(bytes), FetchPurpose::Demand) => {
                self.tally.far_hits.add(1);
                worker.arrived(tenant, key, ticket, bytes, now, visit_page)
            }
            (FetchOutcome::Page(bytes), FetchPurpose::ReadAhead) => {
                visit_page(bytes);
                GetOutcome::Hit
            }
        };
        ended == GetOutcome::Hit
    }
}
