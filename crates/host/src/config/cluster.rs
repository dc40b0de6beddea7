//! What contradicts itself in what the config says of the cluster: its leader, and the etcd that knows its members.

use std::net::IpAddr;

use sublet_etcd::gateway::EndpointScheme;

use super::faults::{ConfigFault, FaultKind};
use super::lending::nearest_member;
use super::peer_place::PeerPlace;
use super::written::WrittenConfig;

/// The keys that mean nothing without `peers.etcd`.
const OF_ETCD: [&str; 6] = [
    "peers.advertise",
    "peers.etcd_ca",
    "peers.etcd_certificate",
    "peers.etcd_key",
    "peers.etcd_user",
    "peers.etcd_password_file",
];

/// The keys of etcd's own certificate and user, each with the one that it needs.
const PAIRS_OF_ETCD: [[&str; 2]; 4] = [
    ["peers.etcd_certificate", "peers.etcd_key"],
    ["peers.etcd_key", "peers.etcd_certificate"],
    ["peers.etcd_user", "peers.etcd_password_file"],
    ["peers.etcd_password_file", "peers.etcd_user"],
];

impl WrittenConfig {
    /// Faults of the leader's name, and of etcd.
    pub(super) fn cluster_faults(&self, faults: &mut Vec<ConfigFault>) {
        if self.lending.peers.etcd.is_empty() {
            self.leader_faults(faults);
            let said = OF_ETCD.into_iter().filter(|key| self.says(key));
            faults.extend(said.map(|key| {
                self.fault(key, |key| FaultKind::Needs {
                    key,
                    needs: "peers.etcd",
                })
            }));
        } else {
            self.etcd_faults(faults);
        }
    }

    fn says(&self, key: &str) -> bool {
        self.locations.contains_key(key)
    }

    /// A leader that is no member.
    fn leader_faults(&self, faults: &mut Vec<ConfigFault>) {
        let peers = &self.lending.peers;
        let Some(leader) = &peers.leader else {
            return;
        };
        let members = peers.members.iter().map(|member| &member.name);
        let names: Vec<&str> = members
            .chain(&peers.node)
            .map(|name| name.as_str())
            .collect();
        if !names.contains(&leader.as_str()) {
            faults.push(self.fault("peers.leader", |key| FaultKind::NoMember {
                key,
                node: leader.clone(),
                nearest: nearest_member(leader, &names),
            }));
        }
    }

    fn etcd_faults(&self, faults: &mut Vec<ConfigFault>) {
        let from_etcd = ["peers.members", "peers.leader"];
        let said = from_etcd.into_iter().filter(|key| self.says(key));
        faults.extend(said.map(|key| self.fault(key, FaultKind::FromEtcd)));
        let lacks = |[said, needs]: &[&'static str; 2]| self.says(said) && !self.says(needs);
        let lacking = PAIRS_OF_ETCD.iter().filter(|pair| lacks(pair));
        faults.extend(
            lacking.map(|[said, needs]| self.fault(said, |key| FaultKind::Needs { key, needs })),
        );
        self.advertised_faults(faults);
        self.endpoint_faults(faults);
    }

    /// An address that other hosts cannot connect to.
    fn advertised_faults(&self, faults: &mut Vec<ConfigFault>) {
        let peers = &self.lending.peers;
        let (key, place) = match (&peers.advertise, &peers.listen) {
            (Some(place), _) => ("peers.advertise", place),
            (None, Some(place)) => ("peers.listen", place),
            (None, None) => return,
        };
        if is_any_address(place) {
            faults.push(self.fault(key, |key| FaultKind::AnyAddress {
                key,
                place: place.to_string(),
            }));
        }
    }

    /// A password that would travel in clear text.
    fn endpoint_faults(&self, faults: &mut Vec<ConfigFault>) {
        let peers = &self.lending.peers;
        let in_clear = peers
            .etcd
            .iter()
            .find(|endpoint| endpoint.scheme() == EndpointScheme::Http && !endpoint.is_loopback());
        if let (Some(endpoint), Some(_)) = (in_clear, &peers.etcd_user) {
            faults.push(
                self.fault("peers.etcd_user", |key| FaultKind::PasswordInClear {
                    key,
                    endpoint: endpoint.to_string(),
                }),
            );
        }
    }
}

/// Returns whether a place stands for all addresses of this host, which no other can connect to.
fn is_any_address(place: &PeerPlace) -> bool {
    let address = place.host.parse::<IpAddr>();
    address.is_ok_and(|address| address.is_unspecified())
}
