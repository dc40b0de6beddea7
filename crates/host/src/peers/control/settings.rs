//! What the control plane is told at its start.

use std::time::Duration;

use sublet_lend::control::{Addresses, VERSION_RANGE};
use sublet_lend::ids::Incarnation;
use sublet_lend::lender::LendLimits;
use sublet_lend::node::{NodeSettings, Presence, Topology};
use sublet_lend::seal::Cipher;
use sublet_tls::peer::PeerTlsSettings;

use super::members::ControlMember;

/// The most sockets that listen for peers. The numbers below are their tokens.
pub(super) const LISTENERS_MAX: usize = 16;

/// What the control plane is told at its start.
#[derive(Clone, Debug)]
pub struct ControlPlaneSettings {
    /// This node, its cluster, and the files that prove it.
    pub tls: PeerTlsSettings,
    /// The others, as far as they are known at the start. Their places in this list are their numbers.
    pub members: Vec<ControlMember>,
    /// Where this node listens, as it tells its peers.
    pub addresses: Addresses,
    /// How much it lends.
    pub limits: LendLimits,
    /// The most blocks that it borrows. The store was made for no fewer.
    pub borrow_max: u32,
    /// The notice of a drain that was in force when the last run ended.
    pub drain: Option<Duration>,
    /// Whether it takes part from the start.
    pub presence: Presence,
    /// Which members it has connections with.
    pub topology: Topology,
    /// What seals the pages of its leases.
    pub cipher: Cipher,
}

impl ControlPlaneSettings {
    /// What the state machine is told.
    pub(super) fn node(&self, incarnation: Incarnation) -> NodeSettings {
        NodeSettings {
            versions: VERSION_RANGE,
            cluster: self.tls.identity.cluster.clone(),
            node: self.tls.identity.node.clone(),
            incarnation,
            addresses: self.addresses.clone(),
            members: self.members.iter().map(ControlMember::settings).collect(),
            limits: self.limits,
            borrow_max: self.borrow_max,
            drain: self.drain,
            presence: self.presence,
            topology: self.topology.clone(),
        }
    }
}
