//! This host as a member of a cluster that etcd knows: two threads, and what they last heard.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_etcd::driver::{MemberCommand, drive};
use sublet_etcd::gateway::{CallTimes, GatewayClient, GatewaySettings, GatewaySettingsError};
use sublet_etcd::member::{Candidacy, ClusterMember, MemberEvent, MemberSettings, TTL_DEFAULT};
use sublet_etcd::record::{NodeRecord, RecordError};
use sublet_tls::peer::NodeIdentity;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::etcd_files::{EtcdFiles, EtcdFilesError, read_tls, read_user};
use super::known_cluster::{KnownCluster, Registration};
use super::member_news::ClusterNews;
use crate::config::EtcdConfig;

/// The most events that wait for the second thread. The driver keeps further ones.
const EVENTS_MAX: usize = 1024;

/// The most commands that wait.
const COMMANDS_MAX: usize = 16;

/// The most events that are passed on at once.
const BATCH_MAX: usize = 4096;

/// Why this host cannot be a member.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// A certificate for etcd or the password's file is wrong.
    #[error(transparent)]
    Files(#[from] EtcdFilesError),
    /// The addresses of etcd are wrong.
    #[error(transparent)]
    Gateway(#[from] GatewaySettingsError),
    /// What the host would write about itself is too long.
    #[error("cannot tell the cluster about this host: {0}")]
    Record(#[from] RecordError),
    /// The kernel gives no thread, or no socket.
    #[error("cannot start to talk to etcd: {0}")]
    System(#[from] io::Error),
}

/// Takes what happened in the cluster. It may wait.
type TellNews = Box<dyn FnMut(ClusterNews) + Send>;

/// What a membership is told at its start.
pub struct MembershipParts {
    /// Where etcd is.
    pub etcd: EtcdConfig,
    /// This host.
    pub identity: NodeIdentity,
    /// What it writes about itself.
    pub record: NodeRecord,
    /// Whether it may lead: nobody can call a host that does not listen.
    pub candidacy: Candidacy,
    /// What it knows of the cluster.
    pub known: KnownCluster,
    /// A random number.
    pub seed: u64,
    /// Who hears what happened in the cluster.
    pub tell: TellNews,
}

/// How this host stands with etcd.
#[derive(Clone, Debug, Default)]
pub struct MembershipStatus {
    /// Whether the other hosts can see this one.
    pub is_registered: bool,
    /// How many hosts are registered beside this one.
    pub members: usize,
    /// The last call that failed, and when.
    pub last_failure: Option<(String, Instant)>,
}

/// This host as a member. It leaves the cluster when this is dropped, in the background.
pub struct EtcdMembership {
    files: EtcdFiles,
    commands: Sender<MemberCommand>,
    status: Arc<Mutex<MembershipStatus>>,
    /// It ends when the member has left.
    has_left: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl EtcdMembership {
    /// Begins to register, and to hear of the others. It does not wait for etcd.
    ///
    /// # Errors
    ///
    /// A file, an address or the record is wrong, or the kernel refuses.
    pub fn start(parts: MembershipParts) -> Result<EtcdMembership, MembershipError> {
        let client = Arc::new(GatewayClient::new(gateway_settings(
            &parts.etcd,
            parts.seed,
        )?)?);
        let member = ClusterMember::new(MemberSettings {
            cluster: parts.identity.cluster.clone(),
            node: parts.identity.node.clone(),
            record: parts.record.encode()?,
            candidacy: parts.candidacy,
            ttl: TTL_DEFAULT,
            seed: parts.seed,
        });
        let (commands, commanded) = channel(COMMANDS_MAX);
        let (events, happened) = channel(EVENTS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let status = Arc::default();
        let registration = parts.known.register_anew();
        let (noted, tell) = (Arc::clone(&status), parts.tell);
        let (leaving, has_left) = std::sync::mpsc::channel();
        thread::Builder::new()
            .name("members".to_owned())
            .spawn(move || {
                pass_on(happened, &registration, &noted, tell);
                drop(leaving);
            })?;
        let store = Arc::clone(&client);
        thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || runtime.block_on(drive(store, member, commanded, events)))?;
        Ok(EtcdMembership {
            files: EtcdFiles::new(parts.etcd, client),
            commands,
            status,
            has_left: Mutex::new(has_left),
        })
    }

    /// The files by which this host and etcd know each other.
    pub fn files(&self) -> EtcdFiles {
        self.files.clone()
    }

    /// Writes something else about this host.
    pub fn set_record(&self, record: &NodeRecord) {
        if let Ok(record) = record.encode() {
            self.command(MemberCommand::SetRecord(record));
        }
    }

    /// Lets others lead from now on.
    pub fn resign(&self) {
        self.command(MemberCommand::SetCandidacy(Candidacy::Follower));
    }

    /// Lets this host lead again.
    pub fn stand(&self) {
        self.command(MemberCommand::SetCandidacy(Candidacy::Candidate));
    }

    /// Leaves the cluster, and waits so long until that is done. If etcd does not answer, the others forget this host some
    /// seconds later.
    pub fn leave(self, within: Duration) {
        self.command(MemberCommand::Leave);
        // Either it has left, or the time is over.
        let _ = self.has_left.lock().recv_timeout(within);
    }

    /// How this host stands with etcd.
    pub fn status(&self) -> MembershipStatus {
        self.status.lock().clone()
    }

    fn command(&self, command: MemberCommand) {
        // An error means that the member has left, or is told for the sixteenth time.
        let _ = self.commands.try_send(command);
    }
}

/// Checks that the files for etcd can be used. It calls nobody.
///
/// # Errors
///
/// A file or an address is wrong.
pub fn check_etcd_files(etcd: &EtcdConfig) -> Result<(), MembershipError> {
    GatewayClient::new(gateway_settings(etcd, 0)?)?;
    Ok(())
}

fn gateway_settings(etcd: &EtcdConfig, seed: u64) -> Result<GatewaySettings, MembershipError> {
    Ok(GatewaySettings {
        endpoints: etcd.endpoints.clone(),
        tls: read_tls(etcd)?,
        user: read_user(etcd)?,
        times: CallTimes::default(),
        seed,
    })
}

/// Passes on what happened, as much at once as there is.
fn pass_on(
    mut happened: Receiver<MemberEvent>,
    registration: &Registration,
    status: &Mutex<MembershipStatus>,
    mut tell: TellNews,
) {
    let mut events = Vec::new();
    while happened.blocking_recv_many(&mut events, BATCH_MAX) > 0 {
        events.iter().for_each(|event| note(status, event));
        if let Some(members) = registration.tell(events.drain(..), &mut tell) {
            status.lock().members = members;
        }
        events.clear();
    }
}

fn note(status: &Mutex<MembershipStatus>, event: &MemberEvent) {
    let mut status = status.lock();
    match event {
        MemberEvent::Registered => {
            status.is_registered = true;
            status.last_failure = None;
        }
        MemberEvent::Unregistered | MemberEvent::Left => status.is_registered = false,
        MemberEvent::Synchronized => status.last_failure = None,
        MemberEvent::StoreFailed(error) => {
            status.last_failure = Some((error.to_string(), Instant::now()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use sublet_etcd::store::StoreError;

    use super::*;

    #[test]
    fn the_status_says_whether_the_host_is_registered_and_which_call_failed_last() {
        let status = Mutex::new(MembershipStatus::default());
        let after = |event: MemberEvent| {
            note(&status, &event);
            let status = status.lock();
            (status.is_registered, status.last_failure.is_some())
        };
        let failed = || MemberEvent::StoreFailed(StoreError::LeaseGone);
        assert_eq!(after(failed()), (false, true));
        assert_eq!(after(MemberEvent::Registered), (true, false));
        assert_eq!(after(failed()), (true, true));
        assert_eq!(after(MemberEvent::Unregistered), (false, true));
        assert_eq!(after(MemberEvent::Synchronized), (false, false));
        assert_eq!(after(MemberEvent::Registered), (true, false));
        assert_eq!(after(MemberEvent::Left), (false, false));
    }
}
