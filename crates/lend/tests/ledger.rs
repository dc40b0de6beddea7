//! The leader's ledger: when it advises, what it knows of whom, and when counts that differ are an alarm.

use std::collections::BTreeMap;
use std::time::Duration;

use sublet_lend::control::{BlockCount, ClusterReport, PairCounts};
use sublet_lend::ids::{NodeName, Term};
use sublet_lend::leader::{
    ADVISE_AFTER, AWAY_AFTER, ClusterNodeState, ClusterNodeStatus, EXPECTED_FOR, GONE_AFTER,
    GONE_SHOWN_FOR, Ledger, LedgerAction, LedgerSettings, MISMATCH_ALARM_AFTER,
};
use sublet_policy::placement::PlacementChoice;

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

fn pairs(pairs: &[(&str, u32)]) -> PairCounts {
    let named = pairs.iter().map(|(text, blocks)| (name(text), *blocks));
    PairCounts::largest(named).0
}

fn report(lendable: u32, wanted: u32) -> ClusterReport {
    ClusterReport {
        total: BlockCount::saturating(1000),
        lendable: BlockCount::saturating(lendable),
        wanted: BlockCount::saturating(wanted),
        ..ClusterReport::default()
    }
}

/// A ledger whose nodes report each second what the test lets them say.
struct Reported {
    ledger: Ledger,
    now: Duration,
    says: BTreeMap<&'static str, ClusterReport>,
}

impl Reported {
    fn new(members: &[&'static str]) -> Reported {
        let settings = LedgerSettings {
            term: Term(3),
            placement: PlacementChoice::default(),
            seed: 1,
        };
        let names = members.iter().map(|text| name(text));
        Reported {
            ledger: Ledger::new(Duration::ZERO, settings, names),
            now: Duration::ZERO,
            says: BTreeMap::new(),
        }
    }

    /// A second passes. Returns who was advised to borrow how much of whom.
    fn second(&mut self) -> Vec<(String, String, u32)> {
        for (node, report) in &self.says {
            self.ledger.report(self.now, &name(node), report.clone());
        }
        self.ledger.tick(self.now);
        self.now += Duration::from_secs(1);
        let mut advised = Vec::new();
        while let Some(action) = self.ledger.poll_action() {
            if let LedgerAction::Advise(advice) = action {
                assert_eq!(advice.term, Term(3));
                let pair = [&advice.borrower, &advice.lender].map(|name| name.as_str().to_owned());
                let [borrower, lender] = pair;
                advised.push((borrower, lender, advice.blocks.get()));
            }
        }
        advised
    }

    fn seconds(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| drop(self.second()));
    }

    fn state(&self, node: &str) -> Option<ClusterNodeState> {
        let nodes = self.ledger.status(self.now).nodes;
        let found = nodes.iter().find(|one| one.name == name(node));
        found.map(|one| one.state)
    }

    fn alarms(&self) -> Vec<(u32, u32)> {
        let alarms = self.ledger.status(self.now).alarms;
        alarms.iter().map(|one| (one.lent, one.borrowed)).collect()
    }
}

#[test]
fn it_advises_when_all_have_reported_or_after_three_seconds() {
    let mut all = Reported::new(&["a", "b"]);
    all.says = [("a", report(50, 0)), ("b", report(0, 9))].into();
    assert_eq!(all.second(), [("b".into(), "a".into(), 9)]);

    let mut some = Reported::new(&["a", "b", "c"]);
    some.says = [("a", report(50, 0)), ("b", report(0, 9))].into();
    while some.now < ADVISE_AFTER {
        assert!(some.second().is_empty());
    }
    assert_eq!(some.second(), [("b".into(), "a".into(), 9)]);
    assert_eq!(some.state("c"), Some(ClusterNodeState::Expected));
    some.seconds((EXPECTED_FOR - ADVISE_AFTER).as_secs() as u32 + 1);
    assert_eq!(some.state("c"), Some(ClusterNodeState::Away));
}

#[test]
fn who_is_silent_is_away_and_then_gone_and_may_come_back() {
    let mut reported = Reported::new(&["a", "b", "c"]);
    let all = [
        ("a", report(50, 0)),
        ("b", report(0, 9)),
        ("c", report(40, 0)),
    ];
    reported.says = all.into();
    reported.seconds(5);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Active));
    let silent = reported.says.remove("a");
    reported.seconds(AWAY_AFTER.as_secs() as u32 + 1);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Away));
    assert_eq!(reported.second(), [("b".into(), "c".into(), 9)]);
    reported.seconds(GONE_AFTER.as_secs() as u32);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Gone));
    reported.seconds(GONE_SHOWN_FOR.as_secs() as u32);
    assert_eq!(reported.state("a"), None, "it is not shown any more");
    reported
        .says
        .insert("a", silent.expect("it reported before"));
    assert_eq!(reported.second(), [("b".into(), "a".into(), 9)]);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Active));
}

#[test]
fn who_leaves_is_advised_nothing_and_is_gone_with_its_goodbye() {
    let mut reported = Reported::new(&["a", "b"]);
    reported.says = [("a", report(50, 0)), ("b", report(0, 9))].into();
    reported.seconds(2);
    reported.ledger.leaves(reported.now, &name("a"));
    let leaving = ClusterReport {
        leaving: true,
        ..report(50, 0)
    };
    reported.says.insert("a", leaving);
    assert!(reported.second().is_empty());
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Leaving));
    reported.ledger.remove_member(reported.now, &name("a"));
    reported.says.remove("a");
    reported.seconds(1);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Gone));
    let stranger = report(9, 0);
    reported.ledger.report(reported.now, &name("x"), stranger);
    assert_eq!(reported.state("x"), None);
}

/// A leader that has missed the `leave`, or forgot it in a silence, learns it from the next report.
#[test]
fn who_leaves_says_so_in_each_report() {
    let leaving = || ClusterReport {
        leaving: true,
        ..report(50, 0)
    };
    let mut reported = Reported::new(&["a", "b"]);
    reported.says = [("a", leaving()), ("b", report(0, 9))].into();
    assert!(reported.second().is_empty(), "the first report says it");
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Leaving));
    reported.says.remove("a");
    reported.seconds(AWAY_AFTER.as_secs() as u32 + 1);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Away));
    reported.says.insert("a", leaving());
    assert!(reported.second().is_empty());
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Leaving));
    // It was killed amid that, and runs again at once.
    reported.says.insert("a", report(50, 0));
    assert_eq!(reported.second(), [("b".into(), "a".into(), 9)]);
    assert_eq!(reported.state("a"), Some(ClusterNodeState::Active));
}

#[test]
fn counts_that_differ_for_ten_seconds_are_an_alarm() {
    let lender = |lent| ClusterReport {
        lent: pairs(&[("b", lent)]),
        ..report(0, 0)
    };
    let borrower = |borrowed| ClusterReport {
        borrowed: pairs(&[("a", borrowed)]),
        ..report(0, 0)
    };
    let wait = MISMATCH_ALARM_AFTER.as_secs() as u32;
    let mut reported = Reported::new(&["a", "b"]);
    reported.says = [("a", lender(20)), ("b", borrower(18))].into();
    reported.seconds(wait);
    assert_eq!(reported.alarms(), []);
    reported.seconds(2);
    assert_eq!(reported.alarms(), [(20, 18)]);
    reported.says.insert("b", borrower(20));
    reported.seconds(1);
    assert_eq!(reported.alarms(), []);
    // What one end names and the other does not counts as well.
    reported.says.insert("b", report(0, 0));
    reported.seconds(wait + 2);
    assert_eq!(reported.alarms(), [(20, 0)]);
    // One that is silent is asked nothing.
    reported.says.remove("b");
    reported.seconds(5);
    assert_eq!(reported.alarms(), []);
    // Reports are not of one moment: figures that move are no alarm.
    for n in 0..3 * wait {
        reported.says = [("a", lender(30 + 2 * n)), ("b", borrower(28 + 2 * n))].into();
        reported.seconds(1);
        assert_eq!(reported.alarms(), []);
    }
}

#[test]
fn what_a_report_left_off_is_no_alarm() {
    let mut reported = Reported::new(&["a", "b"]);
    let many = ClusterReport {
        pairs_left_off: 3,
        ..report(0, 0)
    };
    let borrower = ClusterReport {
        borrowed: pairs(&[("a", 5)]),
        ..report(0, 0)
    };
    reported.says = [("a", many), ("b", borrower)].into();
    reported.seconds(30);
    assert_eq!(reported.alarms(), []);
}

#[test]
fn scarce_memory_goes_to_those_that_have_least_of_others() {
    let mut reported = Reported::new(&["a", "b", "c"]);
    let lends = ClusterReport {
        lent: pairs(&[("b", 40)]),
        ..report(60, 0)
    };
    let has_some = ClusterReport {
        borrowed: pairs(&[("a", 40)]),
        ..report(0, 100)
    };
    reported.says = [("a", lends), ("b", has_some), ("c", report(0, 100))].into();
    let mut advised = reported.second();
    advised.sort();
    let to = |borrower: &str, blocks| (borrower.to_owned(), "a".to_owned(), blocks);
    assert_eq!(advised, [to("b", 10), to("c", 20)]);
}

#[test]
fn a_plan_is_what_comes_next_and_sends_nothing() {
    let mut reported = Reported::new(&["a", "b"]);
    reported.says = [("a", report(50, 0)), ("b", report(0, 9))].into();
    reported.seconds(1);
    let plan = reported.ledger.plan(reported.now);
    assert_eq!((plan.len(), plan[0].blocks), (1, 9));
    assert!(reported.ledger.poll_action().is_none());
    let explained = reported.ledger.status(reported.now).advice;
    assert_eq!(explained.last().map(|given| given.why), Some(plan[0].why));
}

/// A node that asks for the list in parts gets what the leader shows at once.
#[test]
fn pages_of_nodes_are_the_whole_list_by_name() {
    let settings = LedgerSettings {
        term: Term(3),
        placement: PlacementChoice::default(),
        seed: 1,
    };
    let mut names: Vec<NodeName> = (0..100).map(|n| name(&format!("n{n}"))).collect();
    let ledger = Ledger::new(Duration::ZERO, settings, names.clone());
    names.sort_unstable();
    let whole = ledger.status(Duration::ZERO).nodes;
    let shown = whole.iter().map(|node| node.name.clone());
    assert_eq!(shown.collect::<Vec<_>>(), names);
    let mut paged: Vec<ClusterNodeStatus> = Vec::new();
    while paged.len() < whole.len() {
        let after = paged.last().map(|node| node.name.clone());
        let page = ledger.nodes_after(Duration::ZERO, after.as_ref());
        let page: Vec<ClusterNodeStatus> = page.take(33).collect();
        assert!(!page.is_empty(), "nothing after {after:?}");
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    let last = names.last();
    assert_eq!(ledger.nodes_after(Duration::ZERO, last).count(), 0);
}
