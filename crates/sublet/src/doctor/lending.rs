//! Checks of lending between hosts, by what the daemon says of it.

use sublet_client::messages::{ClusterMode, ClusterStatus, LendStatus, PeerLink};
use sublet_types::Bytes;

use super::cluster::examine_cluster;
use super::finding::Finding;

/// A certificate that ends sooner is to be renewed.
const ENDING_DAYS: i64 = 30;

const DAY_SECS: i64 = 86_400;

/// The ciphers that are quick because the CPU has instructions for AES.
const WITH_AES: [&str; 2] = ["AEGIS-128X2", "AES-128-GCM"];

/// Every check of a host that has peers. Connections are counted only where each node has one with each.
pub(super) fn examine_lending(
    status: &LendStatus,
    cluster: Option<&ClusterStatus>,
) -> Vec<Finding> {
    let mut findings = vec![certificates(status)];
    match cluster.filter(|cluster| cluster.how != ClusterMode::Mesh) {
        Some(cluster) => findings.extend(examine_cluster(cluster, status)),
        None => findings.push(peers(status)),
    }
    findings.extend([cipher(status), purpose(status)]);
    findings
}

fn certificates(status: &LendStatus) -> Finding {
    let first = status
        .certificates
        .iter()
        .min_by_key(|one| one.ends_in_secs);
    let Some(first) = first else {
        return Finding::ok("lending: certificate", "the daemon does not say");
    };
    let days = first.ends_in_secs.div_euclid(DAY_SECS);
    let renew =
        "sublet lend ca issue NODE, copy it over the old one, then: systemctl reload sublet";
    match days {
        ..0 => Finding::ok("lending: certificate", format!("{} has ended", first.file))
            .bad("peers refuse this host", renew),
        0..ENDING_DAYS => Finding::ok(
            "lending: certificate",
            format!("{} ends in {days} days", first.file),
        )
        .warn("from then on peers refuse this host", renew),
        _ => Finding::ok("lending: certificate", format!("ends in {days} days")),
    }
}

fn peers(status: &LendStatus) -> Finding {
    let all = status.peers.len();
    let up = status.peers.iter().filter(|peer| peer.link == PeerLink::Up);
    let up = up.count();
    let found = format!("{up} of {all} connected");
    match (all, up) {
        (0, _) => Finding::ok("lending: peers", "none named").warn(
            "nobody lends to this host, and it lends to nobody",
            "name them in the config (peers.members), then: systemctl restart sublet",
        ),
        (_, 0) => Finding::ok("lending: peers", found).warn(
            "nothing can be lent or borrowed",
            "sublet lend status   (and sublet events: why each peer is away)",
        ),
        _ => Finding::ok("lending: peers", found),
    }
}

fn cipher(status: &LendStatus) -> Finding {
    let found = format!("{}: {}", status.cipher, status.cipher_why);
    let finding = Finding::ok("lending: cipher", found);
    match WITH_AES.contains(&status.cipher.as_str()) {
        true => finding,
        false => finding.warn(
            "sealing a page takes longer without AES instructions",
            "lscpu | grep -w aes   (in a virtual machine, give it the host's CPU model)",
        ),
    }
}

fn purpose(status: &LendStatus) -> Finding {
    let never = status.lend_max == Some(Bytes::ZERO);
    let shown = |max: Option<Bytes>| max.map_or("auto".to_owned(), |max| max.to_string());
    let found = format!(
        "lend.max {}, borrow.max {}",
        shown(status.lend_max),
        status.borrow_max
    );
    match never && status.borrow_max == Bytes::ZERO {
        true => Finding::ok("lending: limits", found).warn(
            "the host has peers, and neither lends nor borrows",
            "set lend.max or borrow.max in the config, then: systemctl restart sublet",
        ),
        false => Finding::ok("lending: limits", found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;
    use crate::cluster::status::tests::sample as cluster_of_etcd;
    use crate::lend::peer_tables::tests::sample;

    fn not_well(status: &LendStatus) -> Vec<(&'static str, Severity)> {
        let all = examine_lending(status, None).into_iter();
        all.filter(|finding| finding.verdict != Severity::Ok)
            .inspect(|finding| assert!(!finding.why.is_empty() && !finding.remedy.is_empty()))
            .map(|finding| (finding.check, finding.verdict))
            .collect()
    }

    #[test]
    fn a_host_that_lends_is_left_in_peace() {
        assert_eq!(not_well(&sample()), []);
    }

    #[test]
    fn with_a_leader_the_cluster_is_looked_at_and_not_each_connection() {
        let mut status = sample();
        status.peers.clear();
        let all = examine_lending(&status, Some(&cluster_of_etcd()));
        let checks: Vec<&str> = all.iter().map(|finding| finding.check).collect();
        assert!(checks.contains(&"cluster: leader"), "{checks:?}");
        assert!(!checks.contains(&"lending: peers"), "{checks:?}");
    }

    #[test]
    fn each_trouble_of_lending_is_found_alone() {
        type Spoil = fn(&mut LendStatus);
        let troubles: [(&str, Severity, Spoil); 6] = [
            ("lending: certificate", Severity::Bad, |l| {
                l.certificates[0].ends_in_secs = -1
            }),
            ("lending: certificate", Severity::Warn, |l| {
                l.certificates[0].ends_in_secs = 30 * DAY_SECS - 1
            }),
            ("lending: peers", Severity::Warn, |l| {
                l.peers[0].link = PeerLink::Away
            }),
            ("lending: peers", Severity::Warn, |l| l.peers.clear()),
            ("lending: cipher", Severity::Warn, |l| {
                l.cipher = "ChaCha20-Poly1305".to_owned()
            }),
            ("lending: limits", Severity::Warn, |l| {
                l.lend_max = Some(Bytes::ZERO)
            }),
        ];
        for (check, verdict, spoil) in troubles {
            let mut status = sample();
            spoil(&mut status);
            assert_eq!(not_well(&status), [(check, verdict)]);
        }
    }
}
