//! Whole runs: that they repeat themselves, that they hold, and that each rule that is left out is found.

use super::*;

fn run(nodes: u16, seed: u64, mutation: Option<Mutation>) -> ClusterRun {
    ClusterRun {
        plan: ClusterPlan::of(nodes),
        seed,
        mutation,
        trace: TraceLength::End,
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in [3, 4] {
        let whole = ClusterRun {
            trace: TraceLength::Whole,
            ..run(3, seed, None)
        };
        let (first, again) = (whole.play(), whole.play());
        let first = first.expect("memory for a test");
        assert!(first.trace.len() > 1000, "{} lines", first.trace.len());
        assert_eq!(first, again.expect("memory for a test"));
    }
}

#[test]
fn nothing_is_wrong_in_runs_of_two_to_seven_nodes() {
    let mut tally = ClusterTally::default();
    for (nodes, seeds) in [(2, 8), (3, 8), (5, 24), (7, 4)] {
        for seed in 0..seeds {
            let outcome = run(nodes, seed, None).play().expect("memory for a test");
            let trace = outcome.trace.join("\n");
            assert_eq!(
                outcome.verdict, None,
                "seed {seed} of {nodes} nodes:\n{trace}"
            );
            tally += outcome.tally;
        }
    }
    assert!(tally.far_hits > 1000, "{tally:?}");
    assert!(tally.far_lost > 100 && tally.sent_lost > 100, "{tally:?}");
    assert!(tally.taken > 100 && tally.unclaimed > 0, "{tally:?}");
}

#[test]
fn leaders_are_elected_and_advise_and_without_one_members_are_drawn() {
    let of = |leadership| {
        let mut tally = ClusterTally::default();
        for seed in 0..8 {
            let mut run = run(5, seed, None);
            run.plan.leadership = Some(leadership);
            let outcome = run.play().expect("memory for a test");
            let trace = outcome.trace.join("\n");
            assert_eq!(outcome.verdict, None, "{leadership}, seed {seed}:\n{trace}");
            assert_eq!(outcome.leadership, leadership);
            tally += outcome.tally;
        }
        tally
    };
    let mesh = of(Leadership::Mesh);
    assert_eq!((mesh.elections, mesh.advised, mesh.drawn), (0, 0, 0));
    let nobody = of(Leadership::Nobody);
    assert_eq!((nobody.elections, nobody.advised), (0, 0));
    assert!(nobody.drawn > 50 && nobody.far_hits > 500, "{nobody:?}");
    let named = of(Leadership::Static);
    assert!(named.followed > 20 && named.drawn > 0, "{named:?}");
    let elected = of(Leadership::Etcd);
    assert!(
        elected.elections > 8 && elected.followed > 20,
        "{elected:?}"
    );
    assert!(elected.drawn > 0 && elected.far_hits > 500, "{elected:?}");
}

/// Nothing that etcd does reaches a page or a lease.
#[test]
fn no_lease_is_lost_while_only_etcd_fails() {
    let mut tally = ClusterTally::default();
    for seed in 0..12 {
        let mut run = run(5, seed, None);
        run.plan.leadership = Some(Leadership::Etcd);
        run.plan.faults = FaultScope::EtcdAlone;
        let outcome = run.play().expect("memory for a test");
        assert_eq!(outcome.verdict, None, "seed {seed}");
        assert_eq!(outcome.tally.leases_lost, 0, "seed {seed}");
        tally += outcome.tally;
    }
    assert!(tally.faults > 100 && tally.far_hits > 1000, "{tally:?}");
    assert!(tally.elections > 12, "{tally:?}");
}

#[test]
fn each_rule_that_is_left_out_is_found_by_its_judge() {
    for mutation in Mutation::ALL {
        let runs = (0..200).map(|seed| run(5, seed, Some(mutation)).play());
        let mut verdicts = runs.filter_map(|outcome| outcome.expect("memory for a test").verdict);
        let verdict = verdicts.next();
        let judge = verdict.as_ref().map(|verdict| verdict.judge);
        assert_eq!(judge, Some(mutation.found_by()), "{mutation}: {verdict:?}");
    }
}

#[test]
fn the_word_of_a_rule_names_it() {
    for mutation in Mutation::ALL {
        assert_eq!(mutation.name().parse(), Ok(mutation));
    }
    let wrong = "nothing".parse::<Mutation>().expect_err("no rule");
    assert!(wrong.to_string().contains("late-done-believed"), "{wrong}");
}

#[test]
fn a_report_says_how_to_see_a_failure_again() {
    let mutation = Mutation::BackingUnwritten;
    let outcome = run(2, 1, Some(mutation)).play().expect("memory for a test");
    let report = ClusterReport {
        plan: ClusterPlan::of(2),
        mutation: Some(mutation),
        outcomes: vec![outcome],
    };
    assert!(!report.holds());
    let replay = "sublet-lab sim cluster --nodes 2 --seed 1 --mutate backing-unwritten --trace";
    let text = report.text();
    assert!(
        text.contains(replay) && text.contains("seed 1: lost at"),
        "{text}"
    );
    assert_eq!(report.json()["failures"][0]["judge"], "lost");
}
