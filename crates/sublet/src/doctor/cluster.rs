//! Checks of a node whose cluster has a leader, or more members than it has connections with.

use sublet_client::messages::{
    ClusterMode, ClusterStatus, EtcdState, LendPhase, LendStatus, PeerLink,
};
use sublet_types::NodeName;

use super::finding::Finding;

/// A leader that says nothing for longer counts as none.
const LEADER_SILENT_MILLIS: u64 = 15_000;

/// Every check of a cluster.
pub(super) fn examine_cluster(status: &ClusterStatus, lending: &LendStatus) -> Vec<Finding> {
    let mut findings = vec![participation(status)];
    findings.extend(leader(status, lending));
    findings.extend(etcd(status));
    findings
}

fn participation(status: &ClusterStatus) -> Finding {
    let found = format!(
        "{} of {}: {}",
        status.node,
        status.cluster,
        status.phase.name()
    );
    let finding = Finding::ok("cluster: this node", found);
    match status.phase {
        LendPhase::Left => finding.warn(
            "it has left the cluster: it neither lends nor borrows",
            "sublet cluster join",
        ),
        _ => finding,
    }
}

/// `None` for a cluster that is to have no leader.
fn leader(status: &ClusterStatus, lending: &LendStatus) -> Option<Finding> {
    const CHECK: &str = "cluster: leader";
    let why = "nobody sees all nodes, so that borrowers ask two others at random";
    let remedy = match status.how {
        ClusterMode::Mesh | ClusterMode::NoLeader => return None,
        ClusterMode::NamedLeader => {
            "sublet lend status   (is the leader of peers.leader a member, and does its daemon run?)"
        }
        ClusterMode::Etcd => "etcdctl get /sublet/CLUSTER/1/leader   (and sublet cluster status)",
    };
    let silent = status.leader_silent_millis.unwrap_or(0);
    Some(match &status.leader {
        _ if status.leads_here => Finding::ok(CHECK, "this node"),
        None => Finding::ok(CHECK, "none").warn(why, remedy),
        Some(name) if silent > LEADER_SILENT_MILLIS => {
            if let Some(causes) = refusals(lending, name) {
                let found = format!("{name}; connections with it are refused: {causes}");
                return Some(Finding::ok(CHECK, found).warn(
                    "this node follows nobody, and borrows of those only that take its connections",
                    "sublet lend status   (certificates: sublet lend ca --help)",
                ));
            }
            let found = format!("{name}, silent for {} s", silent / 1000);
            Finding::ok(CHECK, found).warn(why, remedy)
        }
        Some(name) => Finding::ok(CHECK, name.to_string()),
    })
}

/// Why connections with a node were refused, if there is none.
fn refusals(lending: &LendStatus, name: &NodeName) -> Option<String> {
    let mut peers = lending.peers.iter();
    let peer = peers.find(|peer| peer.name == *name && peer.link != PeerLink::Up)?;
    let causes: Vec<&str> = peer.refused.keys().map(String::as_str).collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

fn etcd(status: &ClusterStatus) -> Option<Finding> {
    let etcd = status.etcd.as_ref()?;
    Some(match etcd.state {
        EtcdState::Connected | EtcdState::Registering | EtcdState::Unregistered => {
            Finding::ok("cluster: etcd", etcd.state.name())
        }
        EtcdState::Failing => {
            Finding::ok("cluster: etcd", format!("failing: {}", etcd.why)).warn(
                "who joins and who leaves is not seen, and no leader can be elected; pages and leases go on",
                "etcdctl endpoint health   (with the endpoints and certificates of peers.etcd)",
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;
    use crate::cluster::status::tests::sample;
    use crate::lend::peer_tables::tests::sample as lending;

    fn not_well(status: &ClusterStatus) -> Vec<(&'static str, Severity)> {
        let all = examine_cluster(status, &lending()).into_iter();
        all.filter(|finding| finding.verdict != Severity::Ok)
            .inspect(|finding| assert!(!finding.why.is_empty() && !finding.remedy.is_empty()))
            .map(|finding| (finding.check, finding.verdict))
            .collect()
    }

    #[test]
    fn a_node_with_a_leader_that_speaks_is_left_in_peace() {
        let mut status = sample();
        assert_eq!(not_well(&status), []);
        (status.leader, status.leads_here) = (None, true);
        assert_eq!(not_well(&status), []);
        (status.leads_here, status.how) = (false, ClusterMode::NoLeader);
        assert_eq!(not_well(&status), []);
    }

    #[test]
    fn who_is_refused_by_its_leader_is_told_why() {
        let mut status = sample();
        status.leader_silent_millis = Some(LEADER_SILENT_MILLIS + 1);
        let mut lending = lending();
        let leader = &mut lending.peers[0];
        leader.name = status.leader.clone().expect("a leader");
        leader.link = PeerLink::Away;
        leader.refused = [("unknown-authority".to_owned(), 9)].into();
        let found = super::leader(&status, &lending).expect("a finding");
        assert!(
            found.found.ends_with("are refused: unknown-authority"),
            "{}",
            found.found
        );
    }

    #[test]
    fn each_trouble_of_a_cluster_is_found_alone() {
        type Spoil = fn(&mut ClusterStatus);
        let troubles: [(&str, Spoil); 4] = [
            ("cluster: this node", |it| it.phase = LendPhase::Left),
            ("cluster: leader", |it| it.leader = None),
            ("cluster: leader", |it| {
                it.leader_silent_millis = Some(LEADER_SILENT_MILLIS + 1)
            }),
            ("cluster: etcd", |it| {
                let etcd = it.etcd.as_mut().expect("it uses etcd");
                etcd.state = EtcdState::Failing;
            }),
        ];
        for (check, spoil) in troubles {
            let mut status = sample();
            spoil(&mut status);
            assert_eq!(not_well(&status), [(check, Severity::Warn)]);
        }
    }
}
