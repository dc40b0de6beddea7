use super::*;

#[test]
fn a_seed_gives_the_same_run() {
    let choice = PlacementChoice::default();
    let runs = [1, 1, 2].map(|seed| play(PlacementScene::Plenty, &choice, seed));
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    assert!(runs[0].granted > 1000, "the run was idle");
}

/// What the choice of the default rests on.
#[test]
fn spread_loses_least_with_one_lender_and_recalls_least_where_there_is_plenty() {
    let plenty = |policy| report::row(policy, PlacementScene::Plenty, 1);
    let [spread, two_level] = ["spread", "two-level"].map(plenty);
    let [two_choices, greedy] = ["two-choices", "greedy-remote"].map(plenty);
    assert!(spread.recalled < two_level.recalled);
    assert!(2.0 * two_level.recalled < two_choices.recalled);
    assert!(spread.largest_share < 0.7 * two_level.largest_share);
    assert!(greedy.unmet > 0.5 && spread.unmet < 0.01);
}

/// It levels what nodes have of others, and not only what it grants in a second.
#[test]
fn spread_is_fairer_than_who_comes_first_where_all_want_more_than_there_is() {
    let short = |policy| report::row(policy, PlacementScene::Short, 1);
    let [spread, two_level] = ["spread", "two-level"].map(short);
    assert!(spread.fairness > two_level.fairness + 0.2);
    assert!(spread.unmet < two_level.unmet + 0.01);
    assert!(two_level.unmet > 0.03, "there is enough for all");
}
