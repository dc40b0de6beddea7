//! What holds for every policy, and what each is for.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::catalogue::PLACEMENTS;
use super::*;

fn choice(name: &str, pairs: &[(&str, &str)]) -> PlacementChoice {
    PlacementChoice::new(name, pairs.iter().copied()).expect("a policy")
}

fn lender(node: u32, lendable: u32) -> NodeReport {
    NodeReport {
        node: NodeNumber(node),
        lendable,
        ..NodeReport::default()
    }
}

fn borrower(node: u32, wanted: u32) -> NodeReport {
    NodeReport {
        node: NodeNumber(node),
        wanted,
        ..NodeReport::default()
    }
}

fn in_rack(rack: u32, report: NodeReport) -> NodeReport {
    NodeReport {
        rack: Some(RackNumber(rack)),
        ..report
    }
}

/// What is advised where nobody has anything yet.
fn advised(reports: &[NodeReport], choice: &PlacementChoice, draw: u64) -> Vec<Advice> {
    advise(reports, &|_: LoanPair| 0, choice, draw)
}

/// Who is advised to borrow how much of whom.
fn pairs(advice: &[Advice]) -> Vec<(u32, u32, u32)> {
    let pair = |one: &Advice| (one.borrower.0, one.lender.0, one.blocks);
    advice.iter().map(pair).collect()
}

/// What each borrower is advised to borrow in all.
fn by_borrower(advice: &[Advice]) -> BTreeMap<u32, u32> {
    let mut sums = BTreeMap::new();
    for one in advice {
        *sums.entry(one.borrower.0).or_default() += one.blocks;
    }
    sums
}

prop_compose! {
    fn any_reports()(
        mut reports in prop::collection::vec((
            prop::option::of(0u32..4), prop_oneof![0u32..60, 0u32..100_000, Just(u32::MAX)],
            prop_oneof![2 => Just(0u32), 1 => 1u32..60, 1 => 1u32..100_000, 1 => Just(u32::MAX)],
            prop_oneof![2 => Just(0u32), 1 => 1u32..60, 1 => any::<u32>()],
        ), 0..40)
    ) -> Vec<NodeReport> {
        let numbered = reports.drain(..).enumerate();
        type Drawn = (Option<u32>, u32, u32, u32);
        let report = |(n, (rack, lendable, wanted, borrowed)): (usize, Drawn)| NodeReport {
            node: NodeNumber(n as u32 * 7),
            rack: rack.map(RackNumber),
            lendable,
            wanted,
            borrowed,
        };
        numbered.map(report).collect()
    }
}

proptest! {
    #[test]
    fn nobody_lends_more_than_it_can_or_gets_more_than_it_wants(
        reports in any_reports(), draw: u64, reserve in 0u32..30,
    ) {
        for entry in &PLACEMENTS {
            let reserve_text = reserve.to_string();
            let advice = advised(&reports, &choice(entry.name, &[("reserve", &reserve_text)]), draw);
            let mut lent: BTreeMap<NodeNumber, u64> = BTreeMap::new();
            let mut granted: BTreeMap<NodeNumber, u64> = BTreeMap::new();
            let mut seen = std::collections::BTreeSet::new();
            for one in &advice {
                prop_assert!(one.blocks > 0, "{}", entry.name);
                prop_assert!(one.borrower != one.lender, "{} lends to itself", entry.name);
                prop_assert!(seen.insert((one.borrower, one.lender)), "{} names a pair twice", entry.name);
                *lent.entry(one.lender).or_default() += u64::from(one.blocks);
                *granted.entry(one.borrower).or_default() += u64::from(one.blocks);
            }
            for report in &reports {
                let lendable = if report.wanted == 0 { report.lendable.saturating_sub(reserve) } else { 0 };
                prop_assert!(lent.get(&report.node).copied().unwrap_or(0) <= u64::from(lendable), "{}", entry.name);
                prop_assert!(granted.get(&report.node).copied().unwrap_or(0) <= u64::from(report.wanted), "{}", entry.name);
            }
        }
    }

    #[test]
    fn the_order_of_reports_does_not_matter(mut reports in any_reports(), draw: u64, turn in 0usize..40) {
        for entry in &PLACEMENTS {
            let before = advised(&reports, &choice(entry.name, &[]), draw);
            let turns = turn.min(reports.len());
            reports.rotate_left(turns);
            reports.reverse();
            prop_assert_eq!(before, advised(&reports, &choice(entry.name, &[]), draw), "{}", entry.name);
        }
    }

    #[test]
    fn two_choices_leave_nothing_while_somebody_wants_it(reports in any_reports(), draw: u64) {
        let advice = advised(&reports, &choice("two-choices", &[]), draw);
        let wanted: u64 = reports.iter().map(|report| u64::from(report.wanted)).sum();
        let lends = reports.iter().filter(|report| report.wanted == 0);
        let lendable: u64 = lends.map(|report| u64::from(report.lendable)).sum();
        let placed: u64 = advice.iter().map(|one| u64::from(one.blocks)).sum();
        prop_assert_eq!(placed, wanted.min(lendable));
    }
}

#[test]
fn greedy_remote_asks_for_two_blocks_of_the_largest() {
    let reports = [lender(1, 5), lender(2, 6), borrower(3, 9), borrower(4, 1)];
    for draw in 0..4 {
        let advice = advised(&reports, &choice("greedy-remote", &[]), draw);
        assert_eq!(by_borrower(&advice), [(3, 2), (4, 1)].into());
    }
    let larger = choice("greedy-remote", &[("request", "9")]);
    assert_eq!(pairs(&advised(&reports[..3], &larger, 0)), [(3, 2, 6)]);
}

#[test]
fn two_level_is_algorithm_3_with_its_gap() {
    let two_level = choice("two-level", &[]);
    let all = |reports: &[NodeReport]| pairs(&advised(reports, &two_level, 0));
    // diff > R: all from the largest.
    assert_eq!(
        all(&[lender(1, 50), lender(2, 90), borrower(3, 60)]),
        [(3, 2, 60)]
    );
    // diff < R: what the largest has, and the rest of the next.
    assert_eq!(
        all(&[lender(1, 50), lender(2, 90), borrower(3, 100)]),
        [(3, 2, 90), (3, 1, 10)]
    );
    // diff = R: passed over, as printed.
    assert_eq!(
        all(&[lender(1, 50), lender(2, 90), borrower(3, 90)]),
        [(3, 1, 50)]
    );
    assert_eq!(all(&[lender(2, 90), borrower(3, 90)]), []);
    // R stays with each lender.
    let reserve = choice("two-level", &[("reserve", "40")]);
    assert_eq!(
        pairs(&advised(
            &[lender(1, 50), lender(2, 90), borrower(3, 60)],
            &reserve,
            0
        )),
        [(3, 2, 50)]
    );
}

#[test]
fn spread_takes_a_quarter_from_each_and_the_near_and_rich_first() {
    let spread = choice("spread", &[]);
    let reports = [
        lender(1, 500),
        in_rack(1, lender(2, 400)),
        in_rack(1, lender(3, 200)),
        lender(4, 600),
        in_rack(1, borrower(9, 400)),
    ];
    assert_eq!(
        pairs(&advised(&reports, &spread, 0)),
        [(9, 2, 100), (9, 4, 100), (9, 1, 100), (9, 3, 100)]
    );
    let few = [lender(1, 500), lender(2, 400), borrower(9, 30)];
    assert_eq!(pairs(&advised(&few, &spread, 0)), [(9, 1, 20), (9, 2, 10)]);
}

#[test]
fn spread_counts_what_a_lender_lends_already() {
    let spread = choice("spread", &[]);
    // Wishes come bit by bit: 16 blocks each time.
    let mut borrowed: BTreeMap<u32, u32> = BTreeMap::new();
    for _ in 0..20 {
        let has: u32 = borrowed.values().sum();
        let wants = NodeReport {
            borrowed: has,
            ..in_rack(1, borrower(9, 16))
        };
        let lendable = |lender: u32| 400 - borrowed.get(&lender).copied().unwrap_or(0);
        let lenders = (1..=5).map(|node| in_rack(node % 2, lender(node, lendable(node))));
        let reports: Vec<NodeReport> = lenders.chain([wants]).collect();
        let loans = |pair: LoanPair| borrowed.get(&pair.lender.0).copied().unwrap_or(0);
        for (_, lender, blocks) in pairs(&advise(&reports, &loans, &spread, 0)) {
            *borrowed.entry(lender).or_default() += blocks;
        }
    }
    assert_eq!(borrowed.values().sum::<u32>(), 320);
    let most = borrowed.values().max().copied();
    assert!(most <= Some(80), "{borrowed:?}");

    let only_one = [
        lender(1, 400),
        NodeReport {
            borrowed: 100,
            ..borrower(9, 30)
        },
    ];
    // It has its part already, or the next blocks would exceed it.
    for loan in [100, 30] {
        let advice = advise(&only_one, &|_: LoanPair| loan, &spread, 0);
        assert_eq!(pairs(&advice), [(9, 1, 20)]);
        let reason = AdviceReason::OthersHaveTooLittle {
            lendable: 400,
            from_one: 33,
        };
        assert_eq!(advice[0].reason, reason);
    }
}

#[test]
fn spread_shares_scarce_memory_up_to_an_equal_level() {
    let scarce = [
        lender(1, 60),
        borrower(2, 10),
        borrower(3, 100),
        borrower(4, 100),
    ];
    for draw in 0..4 {
        let all_from_one = [("part", "100")];
        let spread = advised(&scarce, &choice("spread", &all_from_one), draw);
        assert_eq!(by_borrower(&spread), [(2, 10), (3, 25), (4, 25)].into());
        let short = spread.iter().filter(|one| one.shortage.is_some());
        assert_eq!(short.count(), 2);
    }
}

#[test]
fn spread_gives_scarce_memory_to_those_that_have_least_of_others() {
    let having = |borrowed, report| NodeReport { borrowed, ..report };
    let scarce = [
        lender(1, 60),
        having(30, borrower(2, 100)),
        borrower(3, 100),
        having(90, borrower(4, 100)),
    ];
    for draw in 0..4 {
        let advice = advised(&scarce, &choice("spread", &[("part", "100")]), draw);
        assert_eq!(by_borrower(&advice), [(2, 15), (3, 45)].into());
    }
}

#[test]
fn nobody_is_always_served_first() {
    let reports = [lender(1, 50), borrower(2, 60), borrower(3, 60)];
    let first = |draw| {
        advised(&reports, &choice("two-level", &[]), draw)[0]
            .borrower
            .0
    };
    let second_first = (0..1000).filter(|draw| first(*draw) == 3).count();
    assert!((400..600).contains(&second_first), "{second_first} of 1000");
}

#[test]
fn two_choices_depends_on_the_draw_and_prefers_the_freer() {
    let reports: Vec<NodeReport> = (0..100)
        .map(|node| lender(node, if node < 50 { 10 } else { 1000 }))
        .chain([borrower(200, 5)])
        .collect();
    let two_choices = choice("two-choices", &[]);
    let chosen: Vec<u32> = (0..1000)
        .map(|draw| advised(&reports, &two_choices, draw)[0].lender.0)
        .collect();
    let rich = chosen.iter().filter(|node| **node >= 50).count();
    assert!((680..820).contains(&rich), "{rich} of 1000");
    let different: std::collections::BTreeSet<&u32> = chosen.iter().collect();
    assert!(different.len() > 80, "{}", different.len());
}

/// Operations on the sorted lenders, each of logarithmic time, stay proportional to the reports.
#[test]
fn ten_thousand_reports_are_placed_in_proportion_to_their_number() {
    let reports = |nodes: u32, scarce: u32| -> Vec<NodeReport> {
        let mut draws = DrawStream::new(u64::from(nodes));
        let report = |node| {
            let amount = 1 + draws.below(400) as u32;
            let report = match node % 2 {
                0 => lender(node, amount),
                _ => borrower(node, amount * scarce),
            };
            in_rack(node / 40, report)
        };
        (0..nodes).map(report).collect()
    };
    for (entry, scarce) in PLACEMENTS.iter().flat_map(|entry| [(entry, 1), (entry, 9)]) {
        let operations = |reports: &[NodeReport]| {
            let choice = choice(entry.name, &[]);
            let mut lenders = LenderPool::new(reports, 0);
            let advice = place((reports, &|_: LoanPair| 0), &choice, 7, &mut lenders);
            assert!(!advice.is_empty());
            lenders.operations()
        };
        for nodes in [1_000, 10_000] {
            let operations = operations(&reports(nodes, scarce));
            assert!(
                operations <= 40 * u64::from(nodes),
                "{}: {operations} operations for {nodes} nodes",
                entry.name
            );
        }
        // All lenders have exactly what each borrower wants: Algorithm 3 passes them all over.
        let equal: Vec<NodeReport> = (0..10_000)
            .map(|node| match node % 2 {
                0 => lender(node, 100),
                _ => borrower(node, 100),
            })
            .collect();
        let operations = operations_or_none(entry.name, &equal);
        assert!(operations <= 400_000, "{}: {operations}", entry.name);
    }
}

fn operations_or_none(name: &str, reports: &[NodeReport]) -> u64 {
    let mut lenders = LenderPool::new(reports, 0);
    place(
        (reports, &|_: LoanPair| 0),
        &choice(name, &[]),
        7,
        &mut lenders,
    );
    lenders.operations()
}

#[test]
fn advice_reads_as_a_sentence_and_reasons_are_read_back_from_json() {
    let advice = advised(
        &[lender(1, 60), borrower(2, 100)],
        &choice("spread", &[]),
        0,
    );
    assert_eq!(
        advice[0].to_string(),
        "borrow 20 blocks: the lender can lend most of those that are left, 60 blocks; at most 25 come from one \
         lender; it wants 100, but all want 100 and there are 60, so that each gets what it wants up to an equal level"
    );
    let json = serde_json::to_string(&advice[0].reason).expect("it has no maps");
    assert_eq!(
        json,
        r#"{"reason":"most-lendable","lendable":60,"from_one":25}"#
    );
    let reason: AdviceReason = serde_json::from_str(&json).expect("it was just written");
    assert_eq!(reason, advice[0].reason);
}
