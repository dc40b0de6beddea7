//! A lender, as a fetcher sees it: the connection to it, and the guard that says whether it is asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_lend::guard::{GuardChange, GuardState, LenderGuard};

use super::fetch_ledger::{FetchLedger, FetchNews, LenderTally};
use super::fetch_outcome::FetchOutcome;
use super::pending_read::ReadPurpose;
use super::read_connection::ReadConnection;
use crate::peers::lender_session::LenderSession;
use crate::peers::outgoing_socket::RECONNECT_PAUSE;

/// A lender that a thread fetches pages from.
pub(super) struct AskedLender {
    pub(super) session: Arc<LenderSession>,
    pub(super) guard: LenderGuard,
    pub(super) tally: Arc<LenderTally>,
    pub(super) connection: Option<ReadConnection>,
    connects_at: Option<Instant>,
    probed_at: Option<Instant>,
}

/// How a lender is asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskDecision {
    pub(super) purpose: ReadPurpose,
    pub(super) time_limit: Duration,
}

impl AskedLender {
    /// A lender without a connection.
    pub(super) fn new(
        session: Arc<LenderSession>,
        guard: LenderGuard,
        tally: Arc<LenderTally>,
    ) -> AskedLender {
        tally.show(&guard);
        AskedLender {
            session,
            guard,
            tally,
            connection: None,
            connects_at: None,
            probed_at: None,
        }
    }

    /// Returns whether it is asked in this session.
    pub(super) fn is_in(&self, session: &Arc<LenderSession>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Goes over to another session. The connection belonged to the one before.
    pub(super) fn follow(&mut self, session: &Arc<LenderSession>) {
        self.session = Arc::clone(session);
        self.connection = None;
        self.connects_at = None;
    }

    /// Counts what became of a page. A lender that lies again and again is reported.
    pub(super) fn count(&self, ledger: &FetchLedger, outcome: FetchOutcome<'_>) {
        if self.tally.count(outcome) {
            let lender = self.session.lender();
            ledger.post(FetchNews::Forger { lender });
        }
    }

    /// Shows the guard to others, and tells them if it has changed.
    pub(super) fn show_guard(&self, ledger: &FetchLedger, change: Option<GuardChange>) {
        self.tally.show(&self.guard);
        if let Some(change) = change {
            ledger.post(self.tally.guard_news(change));
        }
    }

    /// How the lender may be asked now. `None` if it is too slow.
    ///
    /// While the guard is shut, one read each ping interval tells whether the lender is quick again. It is given up
    /// after the time that would open the guard, half a miss, so that it costs little.
    pub(super) fn decide(&mut self, now: Instant) -> Option<AskDecision> {
        let time_limit = self.guard.time_limit();
        if self.guard.state() == GuardState::Open {
            return Some(AskDecision {
                purpose: ReadPurpose::Fetch,
                time_limit,
            });
        }
        let interval = self.guard.ping_interval()?;
        if self.probed_at.is_some_and(|at| now < at + interval) {
            return None;
        }
        self.probed_at = Some(now);
        Some(AskDecision {
            purpose: ReadPurpose::Probe,
            time_limit: time_limit.min(self.guard.backing() / 2),
        })
    }

    /// The connection. It is opened if there is none. `None` if that failed, or failed a moment ago.
    pub(super) fn connected(&mut self, now: Instant) -> Option<&mut ReadConnection> {
        if self.connection.is_none() && self.connects_at.is_none_or(|at| now >= at) {
            match ReadConnection::open(&self.session) {
                Ok(connection) => self.connection = Some(connection),
                Err(_) => self.disconnect(now),
            }
        }
        self.connection.as_mut()
    }

    /// Ends the connection. The next one is opened after a pause.
    pub(super) fn disconnect(&mut self, now: Instant) {
        self.connection = None;
        self.connects_at = Some(now + RECONNECT_PAUSE);
    }
}
