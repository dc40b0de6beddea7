use super::*;
use crate::clamp;
use crate::fixtures::{any_snapshot, snapshot, tenant};
use proptest::prelude::*;

fn error(name: &str, pairs: &[(&str, &str)]) -> PolicyChoiceError {
    PolicyChoice::new(name, pairs.iter().copied()).expect_err("it is wrong")
}

#[test]
fn names_differ_and_defaults_are_allowed_and_explained() {
    for (n, entry) in CATALOGUE.iter().enumerate() {
        assert!(CATALOGUE[..n].iter().all(|other| other.name != entry.name));
        assert!(!entry.summary.is_empty() && !entry.paper.is_empty());
        for (n, knob) in entry.knobs.iter().enumerate() {
            assert_eq!(knob.read(&knob.default.to_string()), Ok(knob.default));
            assert!(!knob.name.is_empty() && !knob.why.is_empty() && !knob.help.is_empty());
            assert!(entry.knobs[..n].iter().all(|other| other.name != knob.name));
        }
    }
}

#[test]
fn the_page_in_the_docs_is_what_the_catalogue_says() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");
    let page = std::fs::read_to_string(docs).expect("docs/policies.md");
    assert_eq!(
        page,
        reference(),
        "write it anew: sublet generate policy-reference >docs/policies.md"
    );
}

#[test]
fn every_policy_is_made_with_every_knob_at_both_ends() {
    for entry in &CATALOGUE {
        for end in [
            |knob: &PolicyKnobSpec| knob.least,
            |knob: &PolicyKnobSpec| knob.most,
        ] {
            let written: Vec<(&str, String)> = entry
                .knobs
                .iter()
                .map(|knob| (knob.name, end(knob).to_string()))
                .collect();
            let pairs = written.iter().map(|(knob, value)| (*knob, value.as_str()));
            let mut policy = make(entry.name, pairs).expect("the ends are allowed");
            let decision = policy.decide(&snapshot(1000, vec![tenant(1), tenant(2)]));
            assert_eq!(decision.targets.tenants.len(), 2);
        }
    }
}

#[test]
fn set_knobs_reach_the_policy() {
    let choice = PolicyChoice::new("smart-alloc", [("P", "0.75"), ("threshold", "64")])
        .expect("it is right");
    let values: Vec<(&str, f64)> = choice
        .values()
        .map(|(knob, value)| (knob.name, value))
        .collect();
    assert_eq!(values, [("p", 0.75), ("threshold", 64.0)]);
    let mut failing = tenant(1);
    failing.target = Some(Pages(100));
    failing.puts = 1;
    let decision = choice.make().decide(&snapshot(10_000, vec![failing]));
    assert_eq!(decision.targets.tenants[0].pages, Some(Pages(175)));
}

#[test]
fn errors_name_place_and_remedy() {
    let said: Vec<String> = [
        error("smart-aloc", &[]),
        error("bananas", &[]),
        error("smart-alloc", &[("treshold", "1")]),
        error("greedy", &[("p", "1")]),
        error("smart-alloc", &[("p", "1"), ("P", "2")]),
        error("smart-alloc", &[("threshold", "1.5")]),
        error("smart-alloc", &[("p", "lots")]),
        error("smart-alloc", &[("p", "NaN")]),
        error("smart-alloc", &[("p", "101")]),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_eq!(
        said,
        [
            "no policy is called \"smart-aloc\"; did you mean smart-alloc?",
            "no policy is called \"bananas\": there are greedy, weights, static-alloc, reconf-static, smart-alloc, two-level, utility, mrc, pooled",
            "smart-alloc has no knob \"treshold\"; did you mean threshold?",
            "greedy has no knob \"p\"",
            "p is set twice",
            "threshold is a whole number of pages, not \"1.5\"",
            "p is a number of %, not \"lots\"",
            "p is a number of %, not \"NaN\"",
            "p goes from 0.01 to 100 %, and 101 is not in that",
        ]
    );
}

#[test]
fn a_pair_has_an_equals_sign() {
    assert_eq!(pair("p = 0.75"), Ok(("p", "0.75")));
    assert_eq!(
        pair("p").expect_err("no pair").to_string(),
        "\"p\" sets nothing; write knob=value"
    );
}

#[test]
fn a_thousand_tenants_are_no_trouble() {
    for entry in &CATALOGUE {
        let tenants = (0..1000).map(tenant).collect();
        let mut policy = make(entry.name, []).expect("it is in the table");
        let targets = policy.decide(&snapshot(1_000_000, tenants)).targets;
        let sum: u64 = targets
            .tenants
            .iter()
            .filter_map(|target| target.pages)
            .map(|pages| pages.0)
            .sum();
        assert!(sum <= 1_000_000, "{}", entry.name);
    }
}

proptest! {
    #[test]
    fn every_policy_keeps_the_bounds_and_decides_alike_twice(
        snapshots in prop::collection::vec(any_snapshot(), 1..4),
    ) {
        for entry in &CATALOGUE {
            let (mut one, mut two) = (make(entry.name, []).expect("known"), make(entry.name, []).expect("known"));
            for snapshot in &snapshots {
                let decision = one.decide(snapshot);
                prop_assert_eq!(&decision, &two.decide(snapshot), "a NaN is not equal to itself");
                let floors: u128 = snapshot.tenants.iter().map(|tenant| u128::from(clamp::floor(tenant).0)).sum();
                let mut sum = u128::from(decision.targets.unassigned.0);
                prop_assert_eq!(decision.targets.tenants.len(), snapshot.tenants.len());
                for ((tenant, target), why) in snapshot.tenants.iter().zip(&decision.targets.tenants).zip(&decision.explanations) {
                    prop_assert_eq!((target.id, why.id), (tenant.id, tenant.id));
                    prop_assert_eq!((why.before, why.after), (tenant.target, target.pages));
                    prop_assert!(!why.to_string().contains("NaN"), "{} {}", entry.name, why);
                    let Some(pages) = target.pages else { continue };
                    sum += u128::from(pages.0);
                    prop_assert!(pages <= clamp::ceiling(tenant));
                    prop_assert!(pages >= clamp::floor(tenant) || floors > u128::from(snapshot.total.0));
                }
                prop_assert!(sum <= u128::from(snapshot.total.0));
            }
        }
    }
}
