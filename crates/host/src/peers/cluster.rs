//! This host's place in its cluster: it takes part, leaves, and joins again. With etcd, that is where it registers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sublet_client::messages::ClusterMode;
use sublet_etcd::member::Candidacy;
use sublet_etcd::record::NodeRecord;
use sublet_lend::ids::Incarnation;
use sublet_lend::node::LendingInput;
use sublet_tls::peer::{Fingerprint, NodeIdentity};

use super::control::ControlTeller;
use super::membership::{
    ClusterNews, ClusterNotice, EtcdFiles, EtcdMembership, KnownCluster, MembershipError,
    MembershipParts, MembershipStatus,
};
use super::topology::mode;
use crate::config::{LendConfig, PeerPlace, PeersConfig};

/// Who wants to know what happens in the cluster. It must not wait for anything.
pub type ClusterObserver = Arc<dyn Fn(ClusterNotice) + Send + Sync>;

/// What a place in a cluster needs.
pub(super) struct ClusterParts {
    pub(super) peers: PeersConfig,
    pub(super) lend: LendConfig,
    pub(super) identity: NodeIdentity,
    /// Of the certificate that was read last.
    pub(super) fingerprint: Mutex<Fingerprint>,
    pub(super) incarnation: Incarnation,
    pub(super) control: ControlTeller,
    pub(super) observer: ClusterObserver,
}

/// This host's place in its cluster.
pub(super) struct Cluster {
    parts: ClusterParts,
    known: KnownCluster,
    membership: Mutex<Option<EtcdMembership>>,
    /// Whether the node may lead, as it said last.
    candidacy: Mutex<Candidacy>,
}

impl Cluster {
    /// A place that is not taken yet.
    pub(super) fn new(parts: ClusterParts) -> Cluster {
        let known = KnownCluster::new(
            parts.identity.node.clone(),
            parts.lend.clone(),
            parts.peers.placement.clone(),
        );
        Cluster {
            parts,
            known,
            membership: Mutex::new(None),
            candidacy: Mutex::new(Candidacy::Candidate),
        }
    }

    /// How the host finds lenders.
    pub(super) fn mode(&self) -> ClusterMode {
        mode(&self.parts.peers)
    }

    /// What the config says of it.
    pub(super) fn config(&self) -> &PeersConfig {
        &self.parts.peers
    }

    /// Begins to register with etcd, if the config has one and the host does not try it already.
    ///
    /// # Errors
    ///
    /// A file for etcd is wrong, or the kernel refuses.
    pub(super) fn register(&self) -> Result<(), MembershipError> {
        let parts = &self.parts;
        let Some(etcd) = &parts.peers.etcd else {
            return Ok(());
        };
        let mut registered = self.membership.lock();
        if registered.is_some() {
            return Ok(());
        }
        let candidacy = match parts.peers.listen {
            Some(_) => *self.candidacy.lock(),
            None => Candidacy::Follower,
        };
        let (control, observer) = (parts.control.clone(), Arc::clone(&parts.observer));
        let membership = EtcdMembership::start(MembershipParts {
            etcd: etcd.clone(),
            identity: parts.identity.clone(),
            record: self.record(),
            candidacy,
            known: self.known.clone(),
            seed: parts.incarnation.0,
            tell: Box::new(move |news| tell_all(news, &control, &observer)),
        })?;
        *registered = Some(membership);
        Ok(())
    }

    /// What the host writes about itself.
    fn record(&self) -> NodeRecord {
        let peers = &self.parts.peers;
        let place = peers.advertise.as_ref().or(peers.listen.as_ref());
        NodeRecord {
            addresses: place.map(address).into_iter().collect(),
            fingerprint: self.parts.fingerprint.lock().to_string(),
            incarnation: format!("{:016x}", self.parts.incarnation.0),
            rack: peers.rack.as_ref().map(|rack| rack.0.to_string()),
        }
    }

    /// Tells the others of another certificate of this host.
    pub(super) fn certificate_changed(&self, fingerprint: Fingerprint) {
        *self.parts.fingerprint.lock() = fingerprint;
        if let Some(membership) = &*self.membership.lock() {
            membership.set_record(&self.record());
        }
    }

    /// The files by which this host and etcd know each other. `None` if the host is not registered there and does not try
    /// to be: they are read when it joins.
    pub(super) fn etcd_files(&self) -> Option<EtcdFiles> {
        self.membership.lock().as_ref().map(EtcdMembership::files)
    }

    /// Lets others lead, because this host is about to go.
    pub(super) fn resign(&self) {
        if let Some(membership) = &*self.membership.lock() {
            membership.resign();
        }
    }

    /// Keeps this host out of elections while others do not reach it as their leader.
    pub(super) fn follow_node(&self, candidacy: Candidacy) {
        let before = std::mem::replace(&mut *self.candidacy.lock(), candidacy);
        if let Some(membership) = &*self.membership.lock()
            && before != candidacy
        {
            match candidacy {
                Candidacy::Candidate => membership.stand(),
                Candidacy::Follower => membership.resign(),
            }
        }
    }

    /// Leaves etcd, and waits so long until that is done.
    pub(super) fn unregister(&self, within: Duration) {
        let membership = self.membership.lock().take();
        if let Some(membership) = membership {
            membership.leave(within);
        }
    }

    /// How the host stands with etcd. `None` if it is not registered there and does not try to be.
    pub(super) fn status(&self) -> Option<MembershipStatus> {
        self.membership.lock().as_ref().map(EtcdMembership::status)
    }
}

fn tell_all(news: ClusterNews, control: &ControlTeller, observer: &ClusterObserver) {
    let ClusterNews {
        members,
        inputs,
        notices,
    } = news;
    notices.into_iter().for_each(|notice| observer(notice));
    if !members.added.is_empty() || !members.removed.is_empty() {
        control.change_members(members);
    }
    let tell = |input: LendingInput| control.tell(input);
    inputs.into_iter().for_each(tell);
}

fn address(place: &PeerPlace) -> String {
    let shown = place.to_string();
    shown.strip_prefix("tcp:").unwrap_or(&shown).to_owned()
}
