//! How this host finds lenders: whom it is connected with, and who advises it.

use sublet_client::messages::ClusterMode;
use sublet_lend::node::{LeaderNaming, OnDemandSettings, Topology};

use crate::config::PeersConfig;

/// The most members that have a connection each with each. Among more, a borrower asks two of them.
const MESH_MEMBERS_MAX: usize = 16;

/// How this host finds lenders, as its config says.
pub(super) fn mode(peers: &PeersConfig) -> ClusterMode {
    match (&peers.etcd, &peers.leader) {
        (Some(_), _) => ClusterMode::Etcd,
        (None, Some(_)) => ClusterMode::NamedLeader,
        (None, None) if peers.members.len() > MESH_MEMBERS_MAX => ClusterMode::NoLeader,
        (None, None) => ClusterMode::Mesh,
    }
}

/// The same, as the state machine is told. `seed` is a random number of this run.
pub(super) fn topology(peers: &PeersConfig, seed: u64) -> Topology {
    let leader = match (mode(peers), &peers.leader) {
        (ClusterMode::Mesh, _) => return Topology::FullMesh,
        (ClusterMode::NamedLeader, Some(leader)) => LeaderNaming::Fixed(leader.clone()),
        (ClusterMode::Etcd, _) => LeaderNaming::Elected,
        (ClusterMode::NoLeader | ClusterMode::NamedLeader, _) => LeaderNaming::Nobody,
    };
    Topology::OnDemand(OnDemandSettings {
        leader,
        placement: peers.placement.clone(),
        rack: peers.rack.clone(),
        seed,
    })
}
