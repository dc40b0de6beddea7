//! A lender, as a fetcher sees it: the connection to it, and the guard that says whether it is asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_lend::guard::{GuardChange, GuardState, LenderGuard};

use super::fetch_ledger::{FetchLedger, LenderTally};
use super::fetch_outcome::FetchOutcome;
use super::pending_read::ReadPurpose;
use super::read_connection::ReadConnection;
use crate::peers::lender_session::LenderSession;
use crate::peers::outgoing_socket::RECONNECT_PAUSE;
use crate::peers::page_faults::{FaultParty, PageFault};

/// A guard that is shut gets no ping for so long if there are too few pages at the lender that somebody reads.
const UNPINGED_MAX: Duration = Duration::from_secs(1);

/// A lender that is quick enough to be asked, and not much quicker than the backing, is sent pages in one of so many
/// slices of time. What a page from there saves is little then, and sending costs both hosts CPU time for each page.
const SLICES: u128 = 4;

/// How long a slice is. A sequence of evictions goes whole, or not at all.
const SLICE: Duration = Duration::from_millis(64);

/// A lender that a thread fetches pages from.
pub(super) struct AskedLender {
    pub(super) session: Arc<LenderSession>,
    pub(super) guard: LenderGuard,
    pub(super) tally: Arc<LenderTally>,
    pub(super) connection: Option<ReadConnection>,
    connects_at: Option<Instant>,
    probed_at: Option<Instant>,
    /// Slices are counted from here.
    made_at: Instant,
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
            made_at: Instant::now(),
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
            ledger.faults().report_liar(self.session.lender());
        }
    }

    /// Reports that the lender broke the protocol. One that does so again and again is reported as a liar.
    pub(super) fn broke_protocol(&self, ledger: &FetchLedger) {
        self.report(ledger, PageFault::BrokenProtocol);
        if self.tally.count_lie() {
            ledger.faults().report_liar(self.session.lender());
        }
    }

    /// Reports what the lender does wrong.
    pub(super) fn report(&self, ledger: &FetchLedger, fault: PageFault) {
        let lender = FaultParty::Peer(self.session.lender());
        ledger.faults().report(lender, fault);
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
    /// If pings count, one read each ping interval is a ping, whether the guard is open or shut.
    pub(super) fn decide(&mut self, now: Instant) -> Option<AskDecision> {
        if self.is_ping_due(now) {
            self.probed_at = Some(now);
            return Some(AskDecision {
                purpose: ReadPurpose::Probe,
                time_limit: self.guard.probe_limit(),
            });
        }
        (self.guard.state() == GuardState::Open).then(|| AskDecision {
            purpose: ReadPurpose::Fetch,
            time_limit: self.guard.time_limit(),
        })
    }

    /// Returns whether it is worth while to send it pages. While the guard is shut, that is so only if no read has pinged
    /// the lender for a while: a ping needs a page that the lender has.
    pub(super) fn is_worth_sending(&self, now: Instant) -> bool {
        match self.guard.state() {
            GuardState::Open => self.guard.is_much_quicker() || self.has_slice(now),
            GuardState::Shut => self.probed_at.is_none_or(|at| now > at + UNPINGED_MAX),
        }
    }

    fn has_slice(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.made_at);
        (since.as_millis() / SLICE.as_millis()).is_multiple_of(SLICES)
    }

    fn is_ping_due(&self, now: Instant) -> bool {
        let interval = self.guard.ping_interval();
        interval.is_some_and(|interval| self.probed_at.is_none_or(|at| now >= at + interval))
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

#[cfg(test)]
mod tests {
    use sublet_lend::guard::GuardPolicy;
    use sublet_lend::ids::PeerId;

    use super::*;
    use crate::peers::tests::session_with;

    const READ_EVERY: Duration = Duration::from_millis(10);

    /// How the lender answers.
    #[derive(Clone, Copy)]
    enum ReadEnd {
        Answered(Duration),
        Never,
    }

    struct Asking {
        lender: AskedLender,
        now: Instant,
    }

    impl Asking {
        fn new(policy: GuardPolicy) -> Asking {
            let (ping, miss) = (Duration::from_micros(25), Duration::from_millis(1));
            let guard = LenderGuard::new(policy, ping, miss);
            let tally = FetchLedger::default().open(PeerId(0), &"disk".into());
            Asking {
                lender: AskedLender::new(session_with(PeerId(0)), guard, tally),
                now: Instant::now(),
            }
        }

        /// Reads for so many seconds. Returns the states that the guard had.
        fn read_for(&mut self, secs: u64, end: ReadEnd) -> Vec<GuardState> {
            let until = self.now + Duration::from_secs(secs);
            let mut states = vec![self.lender.guard.state()];
            while self.now < until {
                if let Some(how) = self.lender.decide(self.now) {
                    self.end_read(how, end);
                }
                self.now += READ_EVERY;
                let state = self.lender.guard.state();
                if states.last() != Some(&state) {
                    states.push(state);
                }
            }
            states
        }

        fn end_read(&mut self, how: AskDecision, end: ReadEnd) {
            let (guard, limit) = (&mut self.lender.guard, how.time_limit);
            let in_time = match end {
                ReadEnd::Answered(took) => Some(took).filter(|took| *took < limit),
                ReadEnd::Never => None,
            };
            self.now += in_time.unwrap_or(limit);
            match (in_time, how.purpose) {
                (Some(took), ReadPurpose::Fetch) => guard.answered(took),
                (Some(took), ReadPurpose::Probe) => guard.pinged(took),
                (None, ReadPurpose::Fetch) => guard.timed_out(limit),
                (None, ReadPurpose::Probe) => guard.ping_timed_out(limit),
            };
        }
    }

    const QUICK: ReadEnd = ReadEnd::Answered(Duration::from_micros(25));
    const SLOW: ReadEnd = ReadEnd::Answered(Duration::from_millis(50));

    #[test]
    fn reads_shut_either_guard_and_open_it_again() {
        use GuardState::{Open, Shut};
        for policy in [GuardPolicy::Relative, GuardPolicy::Puma] {
            let mut asking = Asking::new(policy);
            assert_eq!(asking.read_for(600, QUICK), [Open], "{policy:?}");
            assert_eq!(asking.read_for(30, SLOW), [Open, Shut], "{policy:?}");
            assert_eq!(asking.read_for(1200, QUICK), [Shut, Open], "{policy:?}");
        }
    }

    #[test]
    fn a_lender_that_never_answers_shuts_either_guard_and_never_opens_it() {
        use GuardState::{Open, Shut};
        for policy in [GuardPolicy::Relative, GuardPolicy::Puma] {
            let mut asking = Asking::new(policy);
            assert_eq!(
                asking.read_for(600, ReadEnd::Never),
                [Open, Shut],
                "{policy:?}"
            );
            assert_eq!(asking.read_for(600, ReadEnd::Never), [Shut], "{policy:?}");
        }
    }

    #[test]
    fn a_lender_that_is_left_alone_is_sent_pages_only_if_nothing_pings_it() {
        let mut asking = Asking::new(GuardPolicy::Relative);
        let is_worth =
            |asking: &Asking, after: Duration| asking.lender.is_worth_sending(asking.now + after);
        assert!(is_worth(&asking, Duration::ZERO));
        asking.read_for(30, SLOW);
        assert!(!is_worth(&asking, Duration::ZERO));
        assert!(is_worth(&asking, UNPINGED_MAX * 2), "nobody reads");
        asking.read_for(30, QUICK);
        assert!(is_worth(&asking, Duration::ZERO));
    }

    #[test]
    fn a_lender_that_is_hardly_quicker_is_sent_a_quarter_of_the_time() {
        let sent = |took: ReadEnd| {
            let mut asking = Asking::new(GuardPolicy::Relative);
            assert_eq!(asking.read_for(30, took), [GuardState::Open]);
            let slices = (0..100).map(|n| asking.now + SLICE * n);
            slices
                .filter(|at| asking.lender.is_worth_sending(*at))
                .count()
        };
        assert_eq!(sent(QUICK), 100);
        let hardly_quicker = ReadEnd::Answered(Duration::from_micros(600));
        assert_eq!(sent(hardly_quicker), 25);
    }

    #[test]
    fn a_quick_lender_is_pinged_by_one_read_each_interval_under_puma_alone() {
        for (policy, pings) in [(GuardPolicy::Relative, 0), (GuardPolicy::Puma, 10)] {
            let mut asking = Asking::new(policy);
            let decisions = (0..1000).filter_map(|_| {
                asking.now += Duration::from_millis(1);
                asking.lender.decide(asking.now)
            });
            let probes = decisions.filter(|how| how.purpose == ReadPurpose::Probe);
            assert_eq!(probes.count(), pings, "{policy:?}");
        }
    }
}
