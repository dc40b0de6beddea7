//! What an owner sees and does of lending between hosts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sublet_client::messages::{
    ChangeLifetime, ConfigDifference, DrainLending, LeaseList, LendPhase, LendStatus, ResumeLending,
};
use sublet_lend::node::LendingInput;
use sublet_tls::peer::Fingerprint;

use super::Daemon;
use super::request_error::RequestError;
use crate::config::{self, DrainChange};
use crate::credential_report::CredentialReport;
use crate::observe::events::{Actor, EventId, EventReason, EventSubject, Events, PostedEvent};
use crate::peers::certificate_expiry::ExpiryReminder;
use crate::peers::lending::Lending;
use crate::peers::lending_figures::{FiguresTime, lease_list, lend_status};
use crate::peers::membership::EtcdFiles;

/// The longest notice of a drain.
pub(super) const DRAIN_NOTICE_MAX: Duration = Duration::from_secs(3600);

impl Daemon {
    /// How the host stands with its peers. `None` if it has none.
    pub(super) fn lending_status(&self) -> Option<LendStatus> {
        let lending = self.lending.as_deref()?;
        let time = figures_time(self);
        let overhead = self.backend.store.far_overhead();
        let costs = (overhead, self.drain_lasts());
        Some(lend_status(lending, &self.config, costs, time))
    }

    /// How long a drain holds that is in force now.
    fn drain_lasts(&self) -> ChangeLifetime {
        match self.kept_draining().is_drain() {
            true => ChangeLifetime::Always,
            false => ChangeLifetime::UntilRestart,
        }
    }

    /// How the host stands with its peers.
    ///
    /// # Errors
    ///
    /// The host has no peers.
    pub fn lend_status(&self) -> Result<LendStatus, RequestError> {
        self.lending_status().ok_or(RequestError::NoPeers)
    }

    /// All leases between the host and its peers.
    ///
    /// # Errors
    ///
    /// The host has no peers.
    pub fn leases(&self) -> Result<LeaseList, RequestError> {
        Ok(lease_list(self.peers()?))
    }

    /// Lends nothing more, and asks borrowers for what is lent.
    ///
    /// # Errors
    ///
    /// The host has no peers, the notice is too long, or the change cannot be written down.
    pub fn drain_lending(
        &self,
        drain: &DrainLending,
        by: Actor,
    ) -> Result<LendStatus, RequestError> {
        let within = Duration::from_millis(drain.within_millis);
        if within > DRAIN_NOTICE_MAX {
            return Err(RequestError::DrainNotice);
        }
        let input = LendingInput::Drain { within };
        self.change_draining(DrainChange::Drain, drain.lasts, by, input)
    }

    /// Lends again after a drain.
    ///
    /// # Errors
    ///
    /// The host has no peers, or the change cannot be written down.
    pub fn resume_lending(
        &self,
        resume: &ResumeLending,
        by: Actor,
    ) -> Result<LendStatus, RequestError> {
        let input = LendingInput::Resume;
        self.change_draining(DrainChange::Resume, resume.lasts, by, input)
    }

    fn change_draining(
        &self,
        change: DrainChange,
        lasts: ChangeLifetime,
        by: Actor,
        input: LendingInput,
    ) -> Result<LendStatus, RequestError> {
        let lending = self.peers()?;
        let turn = self.live.lock()?;
        if lasts == ChangeLifetime::Always {
            let differs = change.is_drain() != self.written.lend.drain;
            turn.persist(|live| live.with_drain(differs.then_some(change)))?;
        }
        let id = match change {
            DrainChange::Drain => EventId::LendDrained,
            DrainChange::Resume => EventId::LendResumed,
        };
        self.events.post(PostedEvent::new(id, lasts.into()).by(by));
        lending.tell(input);
        drop(turn);
        self.lend_status()
    }

    /// Takes everything back at once. The host lends again half a minute later.
    ///
    /// # Errors
    ///
    /// The host has no peers.
    pub fn recall_lent(&self, by: Actor) -> Result<LendStatus, RequestError> {
        let lending = self.peers()?;
        let paused = PostedEvent::new(EventId::LendPaused, EventReason::ByHand);
        self.events.post(paused.by(by));
        lending.tell(LendingInput::RecallNow);
        self.lend_status()
    }

    /// Whether lending drains now. `None` if the host has no peers.
    pub(super) fn is_draining(&self) -> Option<bool> {
        let phase = self.lending_status()?.phase;
        Some(phase == LendPhase::Draining)
    }

    /// Where lending differs from the config.
    pub(super) fn drain_difference(&self) -> Option<ConfigDifference> {
        let (now, written) = (self.is_draining()?, self.written.lend.drain);
        (now != written).then(|| ConfigDifference {
            key: "lend.drain".to_owned(),
            config: written.to_string(),
            now: now.to_string(),
            kept: self.live.current().drain().map(DrainChange::is_drain) == Some(now),
        })
    }

    /// Reads the certificates of the peers again, the deny list of the config, and the files for etcd.
    pub(super) fn reload_peers(&self, outcome: &mut CredentialReport) {
        let Some(lending) = &self.lending else {
            return;
        };
        let denied = self.denied_now(outcome);
        let tls = lending.tls();
        let files = [&tls.ca, &tls.certificate, &tls.key];
        outcome.record(EventSubject::None, &files, lending.reload(denied));
        let of_etcd = lending.etcd_files();
        for reread in of_etcd.iter().flat_map(EtcdFiles::reread) {
            let files: Vec<&PathBuf> = reread.files.iter().collect();
            outcome.record(EventSubject::None, &files, reread.outcome);
        }
    }

    /// The certificates that the config denies now. `None` if the config has faults or names no peers.
    fn denied_now(&self, outcome: &mut CredentialReport) -> Option<Vec<Fingerprint>> {
        let file = self.file.as_ref()?;
        match config::check(file) {
            Ok(config) => config.peers.tls.map(|tls| tls.denied),
            Err(error) => {
                outcome.record(EventSubject::None, &[file], Err(error));
                None
            }
        }
    }

    /// Whether the host lends, as its owner said for good.
    pub(super) fn kept_draining(&self) -> DrainChange {
        let written = match self.written.lend.drain {
            true => DrainChange::Drain,
            false => DrainChange::Resume,
        };
        self.live.current().drain().unwrap_or(written)
    }

    pub(super) fn peers(&self) -> Result<&Lending, RequestError> {
        self.lending.as_deref().ok_or(RequestError::NoPeers)
    }
}

/// When figures are taken that are asked for now.
pub(super) fn figures_time(daemon: &Daemon) -> FiguresTime {
    FiguresTime {
        now: Duration::from_nanos(daemon.backend.clock.moment().0),
        now_unix: unix_secs(),
    }
}

/// Reports the files of the peers and for etcd that were read at the start.
pub(crate) fn record_peer_files(lending: &Lending, events: &Events) {
    let (tls, mut read) = (
        lending.tls(),
        CredentialReport::new(events, EventReason::Start),
    );
    read.record_read(EventSubject::None, &[&tls.ca, &tls.certificate, &tls.key]);
    let of_etcd = lending.etcd_files();
    for files in of_etcd.iter().flat_map(EtcdFiles::list) {
        let files: Vec<&PathBuf> = files.iter().collect();
        read.record_read(EventSubject::None, &files);
    }
}

/// A chore that tells the owner in time that certificates of the peers end, and follows the node: out of its cluster, and
/// out of elections while nobody reaches it.
pub(crate) fn lending_chore(
    lending: Option<Arc<Lending>>,
    events: &Events,
) -> impl FnMut() + Send + use<> {
    let mut reminder = ExpiryReminder::new(events);
    move || {
        if let Some(lending) = &lending {
            reminder.remind(unix_secs(), &lending.certificate_ends());
            lending.follow_leave();
            lending.follow_node();
        }
    }
}

fn unix_secs() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
