//! Whom a leader tells of nodes that fell silent, and when.

use std::time::Duration;

use sublet_lend::control::ClusterReport;
use sublet_lend::ids::{NodeName, Term};
use sublet_lend::leader::{
    AWAY_AFTER, DOUBT_MAX, EXPECTED_FOR, GONE_AFTER, LISTED_AFTER, Ledger, LedgerAction,
    LedgerSettings, SILENT_CROWD_MIN,
};
use sublet_policy::placement::PlacementChoice;

const NODES: usize = 100;

const SECOND: Duration = Duration::from_secs(1);

fn name(node: usize) -> NodeName {
    format!("n{node:03}").parse().expect("a name")
}

/// How many names the first node was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ToldNames {
    absent: usize,
    back: usize,
}

/// A leader, and nodes of which all report at first. Only the first one is told who takes part.
struct Cluster {
    ledger: Ledger,
    now: Duration,
}

impl Cluster {
    fn new() -> Cluster {
        let settings = LedgerSettings {
            term: Term(1),
            placement: PlacementChoice::default(),
            seed: 1,
        };
        let mut ledger = Ledger::new(Duration::ZERO, settings, (0..NODES).map(name));
        ledger.connected(&name(0));
        let mut cluster = Cluster {
            ledger,
            now: Duration::ZERO,
        };
        cluster.pass(5 * SECOND, |_| true);
        cluster
    }

    /// Time passes, in which some nodes report each second. Returns what the first node was told.
    fn pass(&mut self, time: Duration, reports: impl Fn(usize) -> bool) -> ToldNames {
        let mut told = ToldNames::default();
        let end = self.now + time;
        while self.now < end {
            for node in (0..NODES).filter(|node| reports(*node)) {
                let report = ClusterReport::default();
                self.ledger.report(self.now, &name(node), report);
            }
            self.ledger.tick(self.now);
            self.now += SECOND;
            while let Some(action) = self.ledger.poll_action() {
                if let LedgerAction::TellMembers { update, .. } = action {
                    told.absent += update.absent.iter().count();
                    told.back += update.back.iter().count();
                }
            }
        }
        told
    }
}

const NOTHING: ToldNames = ToldNames { absent: 0, back: 0 };

#[test]
fn others_are_told_of_a_node_that_died_and_of_its_return() {
    let mut cluster = Cluster::new();
    let others = |node| node != 7;
    let one_absent = ToldNames { absent: 1, back: 0 };
    let one_back = ToldNames { absent: 0, back: 1 };
    assert_eq!(
        cluster.pass(AWAY_AFTER + LISTED_AFTER - SECOND, others),
        NOTHING
    );
    assert_eq!(cluster.pass(2 * SECOND, others), one_absent);
    assert_eq!(cluster.pass(EXPECTED_FOR, others), NOTHING);
    assert_eq!(cluster.pass(SECOND, |_| true), one_back);
}

#[test]
fn a_leader_that_was_cut_off_tells_nobody_of_all_others() {
    let mut cluster = Cluster::new();
    let leader_alone = |node| node == NODES - 1;
    for _ in 0..3 {
        assert_eq!(cluster.pass(12 * SECOND, leader_alone), NOTHING);
        // They come back one after the other.
        for back in (0..NODES).step_by(20) {
            assert_eq!(cluster.pass(SECOND, |node| node <= back), NOTHING);
        }
        assert_eq!(cluster.pass(20 * SECOND, |_| true), NOTHING);
    }
}

#[test]
fn those_that_do_not_come_back_with_the_others_are_told() {
    let mut cluster = Cluster::new();
    cluster.pass(12 * SECOND, |node| node == 0);
    let most = |node| node < 90;
    assert_eq!(cluster.pass(EXPECTED_FOR - SECOND, most), NOTHING);
    let ten = ToldNames {
        absent: 10,
        back: 0,
    };
    assert_eq!(cluster.pass(3 * SECOND, most), ten);
}

#[test]
fn a_crowd_that_died_is_told_after_a_while() {
    let mut cluster = Cluster::new();
    let few = |node| node < 40;
    assert_eq!(cluster.pass(DOUBT_MAX - SECOND, few), NOTHING);
    let crowd = ToldNames {
        absent: 60,
        back: 0,
    };
    assert_eq!(cluster.pass(10 * SECOND, few), crowd);
    assert_eq!(cluster.pass(GONE_AFTER, few), NOTHING);
}

#[test]
fn a_part_of_the_cluster_that_died_is_told_at_once() {
    let mut cluster = Cluster::new();
    let most = |node| node >= 40 || node == 0;
    let told = cluster.pass(AWAY_AFTER + LISTED_AFTER + SECOND, most);
    const { assert!(39 > SILENT_CROWD_MIN) };
    let part = ToldNames {
        absent: 39,
        back: 0,
    };
    assert_eq!(told, part);
}
