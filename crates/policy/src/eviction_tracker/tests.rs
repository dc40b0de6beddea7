use proptest::prelude::*;

use super::*;

/// A hash of a number. It is well spread, so that chance alone decides what is thinned out.
fn hash(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn ages_and_uses_are_those_at_the_eviction() {
    let mut tracker = EvictionTracker::new(Second(0));
    for page in 1..=20 {
        tracker.record(page, ResidentEvent::Put, Second(0));
    }
    for page in 11..=20 {
        tracker.record(page, ResidentEvent::Got, Second(1));
        tracker.record(page, ResidentEvent::Got, Second(1));
    }
    tracker.record(20, ResidentEvent::Put, Second(6));
    tracker.record(19, ResidentEvent::Dropped, Second(7));
    for page in 1..=18 {
        tracker.record(
            page,
            ResidentEvent::Evicted,
            Second(if page <= 10 { 4 } else { 9 }),
        );
    }
    tracker.record(20, ResidentEvent::Evicted, Second(9));
    let known = tracker.close(Second(9), 0);
    // Ten of age 4 without a use, eight of age 9 with two, and one that was put again 3 s before.
    assert_eq!(known.age, Some(Quantiles { p50: 4.0, p95: 9.0 }));
    assert_eq!(known.uses, Some(Quantiles { p50: 0.0, p95: 2.0 }));
}

#[test]
fn who_was_taken_comes_back_with_its_uses() {
    let mut tracker = EvictionTracker::new(Second(0));
    (1..=9).for_each(|page| tracker.record(page, ResidentEvent::Put, Second(0)));
    for _ in 0..3 {
        tracker.record(1, ResidentEvent::GotAndRemoved, Second(1));
        tracker.record(1, ResidentEvent::Put, Second(2));
    }
    tracker.record(1, ResidentEvent::Evicted, Second(5));
    let known = tracker.close(Second(5), 8);
    assert_eq!(known.uses, Some(Quantiles { p50: 3.0, p95: 3.0 }));
    assert_eq!(known.age, Some(Quantiles { p50: 3.0, p95: 3.0 }));
}

/// Five are here. Six are evicted one by one, and the first one's turnover is over at the sixth.
#[test]
fn regret_is_known_when_a_turnover_is_over() {
    let mut tracker = EvictionTracker::new(Second(0));
    (1..=5).for_each(|page| tracker.record(page, ResidentEvent::Put, Second(0)));
    let replace = |tracker: &mut EvictionTracker, old: u64| {
        tracker.record(old, ResidentEvent::Evicted, Second(1));
        tracker.record(old + 5, ResidentEvent::Put, Second(1));
    };
    for old in 1..=4 {
        replace(&mut tracker, old);
    }
    tracker.record(1, ResidentEvent::Got, Second(1));
    assert_eq!(tracker.close(Second(1), 5).regret, None);
    replace(&mut tracker, 5);
    // While one is out, four are here.
    assert_eq!(tracker.close(Second(1), 5).regretted, 1);
    for old in 6..=8 {
        replace(&mut tracker, old);
    }
    tracker.record(2, ResidentEvent::Got, Second(1)); // its turnover was over
    let known = tracker.close(Second(1), 5);
    assert_eq!((known.judged, known.regretted), (4, 1));
    assert_eq!(known.regret, Some(0.25));
}

#[test]
fn strays_are_forgotten_and_no_more_are_followed_than_there_is_room_for() {
    let mut tracker = EvictionTracker::new(Second(0));
    for page in 0..100_000 {
        tracker.record(hash(page), ResidentEvent::Put, Second(page as u32 / 1000));
    }
    assert!(tracker.residents.len() <= FOLLOWED_MAX);
    assert!(tracker.residents.len() > FOLLOWED_MAX / 2);
    let before = tracker.residents.len() as f64;
    tracker.close(Second(100), 50_000);
    let left = tracker.residents.len() as f64;
    assert!(
        (left / before - 0.5 * STRAY).abs() < 0.06,
        "{left} of {before}"
    );
    let oldest = tracker
        .residents
        .values()
        .map(|resident| resident.since.0)
        .min();
    assert!(oldest > Some(30), "the oldest went: {oldest:?}");
}

/// An exclusive tier in which everything fits: nothing is ever evicted.
#[test]
fn of_those_who_were_taken_no_more_are_remembered_than_there_is_room_for() {
    let mut tracker = EvictionTracker::new(Second(0));
    for n in 0..10 * FOLLOWED_MAX as u64 {
        let page = hash(n % 100);
        tracker.record(page, ResidentEvent::Put, Second(0));
        tracker.record(page, ResidentEvent::GotAndRemoved, Second(0));
    }
    assert!(tracker.taken.places() <= FOLLOWED_MAX);
}

#[test]
fn nothing_is_known_of_nobody_and_the_past_fades() {
    let mut tracker = EvictionTracker::new(Second(0));
    assert_eq!(tracker.close(Second(1), 0), EvictionStats::default());
    tracker.record(1, ResidentEvent::Put, Second(1));
    tracker.record(1, ResidentEvent::Evicted, Second(2));
    assert!(tracker.close(Second(3), 0).age.is_some());
    let later = tracker.close(Second(10_000), 0);
    assert_eq!((later.age, later.regret), (None, None));
    assert_eq!(later.judged, 1);
}

/// The same tracker in plain lists that remember everything.
#[derive(Default)]
struct PlainTracker {
    residents: Vec<(u64, u32, u32)>,
    taken: Vec<(u64, u32)>,
    evicted: Vec<(u64, bool)>,
    ages: Vec<u32>,
    uses: Vec<u32>,
    verdicts: Vec<bool>,
}

impl PlainTracker {
    fn record(&mut self, page: u64, event: ResidentEvent, now: u32) {
        let here = self.residents.iter().position(|one| one.0 == page);
        if matches!(event, ResidentEvent::Got | ResidentEvent::GotAndRemoved)
            && let Some(ghost) = self.evicted.iter_mut().rfind(|one| one.0 == page)
        {
            ghost.1 = true;
        }
        match (event, here) {
            (ResidentEvent::Put, Some(n)) => self.residents[n].1 = now,
            (ResidentEvent::Put, None) => {
                let back = self.taken.iter().position(|one| one.0 == page);
                let uses = back.map_or(0, |n| self.taken[n].1);
                // Its place stays empty until its turn has come.
                if let Some(n) = back {
                    self.taken[n].0 = u64::MAX;
                }
                self.residents.push((page, now, uses));
            }
            (ResidentEvent::Got, Some(n)) => self.residents[n].2 += 1,
            (ResidentEvent::GotAndRemoved, Some(n)) => {
                let (_, _, uses) = self.residents.remove(n);
                self.taken.push((page, uses + 1));
            }
            (ResidentEvent::Dropped, Some(n)) => drop(self.residents.remove(n)),
            (ResidentEvent::Evicted, _) => {
                if let Some(n) = here {
                    let (_, since, uses) = self.residents.remove(n);
                    self.ages.push(now - since);
                    self.uses.push(uses);
                }
                self.evicted.push((page, false));
                while self.evicted.len() > self.residents.len() {
                    self.verdicts.push(self.evicted.remove(0).1);
                }
                while self.taken.len() > self.residents.len() {
                    self.taken.remove(0);
                }
            }
            _ => {}
        }
    }
}

fn any_stir() -> impl Strategy<Value = ResidentEvent> {
    prop_oneof![
        4 => Just(ResidentEvent::Put), 2 => Just(ResidentEvent::Got), 2 => Just(ResidentEvent::GotAndRemoved),
        1 => Just(ResidentEvent::Dropped), 2 => Just(ResidentEvent::Evicted),
    ]
}

/// The figure at a part of a list.
fn at(list: &mut [u32], part: f64) -> f64 {
    list.sort_unstable();
    let place = (list.len() as f64 * part).ceil() as usize;
    f64::from(list[place.max(1) - 1])
}

proptest! {
    #[test]
    fn it_counts_as_plain_lists_do(turns in prop::collection::vec((any_stir(), 0u64..24), 0..400)) {
        let mut tracker = EvictionTracker::new(Second(0));
        let mut plain = PlainTracker::default();
        for (n, (event, page)) in turns.into_iter().enumerate() {
            let now = n as u32 / 40;
            tracker.record(hash(page), event, Second(now));
            plain.record(page, event, now);
        }
        tracker.at = Second(10);
        let known = tracker.close(Second(10), 24);
        let regretted = plain.verdicts.iter().filter(|asked_for| **asked_for).count();
        prop_assert_eq!((known.judged, known.regretted), (plain.verdicts.len() as u64, regretted as u64));
        match known.age {
            None => prop_assert!(plain.ages.is_empty()),
            Some(age) => {
                prop_assert_eq!(age, Quantiles { p50: at(&mut plain.ages, 0.5), p95: at(&mut plain.ages, 0.95) });
                let uses = Quantiles { p50: at(&mut plain.uses, 0.5), p95: at(&mut plain.uses, 0.95) };
                prop_assert_eq!(known.uses, Some(uses));
            }
        }
    }
}
