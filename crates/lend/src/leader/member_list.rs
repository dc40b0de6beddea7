//! Which members take no part, and who was told so: as differences, from revision to revision. Who knows the list is
//! told every few seconds that it is as it was. That is how a node knows that its leader still leads.
//!
//! Nodes know who the members are. A list of those that take part would be told to thousands whenever a leader begins.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::control::{MEMBER_NAMES_MAX, MemberNames, MembersUpdate};
use crate::ids::{NodeName, Term};

/// The most changes that are kept. A node that knows an older list gets the whole one.
pub const REVISIONS_KEPT_MAX: usize = 4096;

/// The most nodes that get a whole list in a second.
pub const FULL_LISTS_EACH_SECOND: usize = 200;

/// A node that knows the list is told so after so long.
pub const LIST_TOLD_AGAIN_AFTER: Duration = Duration::from_secs(4);

/// A change of the list: the name of the node that went or is back.
#[derive(Clone, Debug)]
struct ListChange {
    name: NodeName,
    change: Participation,
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Participation {
    /// It does.
    TakesPart,
    /// It does not.
    StaysOut,
}

/// The revision of the empty list. 0 stands for a list that was not told.
const EMPTY: u64 = 1;

/// What a connected node was told.
#[derive(Clone, Copy, Debug, Default)]
struct ToldList {
    /// 0 is nothing.
    revision: u64,
    at: Duration,
}

/// Which members take no part, and who was told so.
#[derive(Debug)]
pub(super) struct MemberList {
    term: Term,
    absent: BTreeSet<NodeName>,
    revision: u64,
    /// The latest changes. The last one made the present revision.
    changes: VecDeque<ListChange>,
    /// What each connected node was told.
    told: BTreeMap<NodeName, ToldList>,
}

/// The parts of an update, all for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpdateFor {
    pub(super) node: NodeName,
    pub(super) parts: Vec<MembersUpdate>,
}

impl MemberList {
    /// An empty list.
    pub(super) fn new(term: Term) -> MemberList {
        MemberList {
            term,
            absent: BTreeSet::new(),
            revision: EMPTY,
            changes: VecDeque::new(),
            told: BTreeMap::new(),
        }
    }

    /// Records whether a node takes part.
    pub(super) fn set(&mut self, name: &NodeName, change: Participation) {
        let is_change = match change {
            Participation::TakesPart => self.absent.remove(name),
            Participation::StaysOut if self.absent.contains(name) => false,
            Participation::StaysOut => self.absent.insert(name.clone()),
        };
        if !is_change {
            return;
        }
        self.revision += 1;
        self.changes.push_back(ListChange {
            name: name.clone(),
            change,
        });
        if self.changes.len() > REVISIONS_KEPT_MAX {
            self.changes.pop_front();
        }
    }

    /// A node is connected, and knows nothing.
    pub(super) fn connected(&mut self, name: &NodeName) {
        self.told.insert(name.clone(), ToldList::default());
    }

    /// A node is not connected any more.
    pub(super) fn disconnected(&mut self, name: &NodeName) {
        self.told.remove(name);
    }

    /// What is to be told to whom now. Those who need the whole list have turns.
    pub(super) fn updates(&mut self, now: Duration) -> Vec<UpdateFor> {
        let mut made: BTreeMap<u64, Vec<MembersUpdate>> = BTreeMap::new();
        let mut updates = Vec::new();
        let mut full_lists = 0;
        let revision = self.revision;
        let mut told = std::mem::take(&mut self.told);
        let is_due = |told: &ToldList| {
            told.revision < revision || now.saturating_sub(told.at) >= LIST_TOLD_AGAIN_AFTER
        };
        for (node, told) in told.iter_mut().filter(|(_, told)| is_due(told)) {
            let from = if self.knows_changes_since(told.revision) {
                told.revision
            } else {
                0
            };
            full_lists += usize::from(from == 0);
            if from == 0 && full_lists > FULL_LISTS_EACH_SECOND {
                continue;
            }
            let parts = made.entry(from).or_insert_with(|| self.since(from));
            updates.push(UpdateFor {
                node: node.clone(),
                parts: parts.clone(),
            });
            *told = ToldList { revision, at: now };
        }
        self.told = told;
        updates
    }

    fn knows_changes_since(&self, revision: u64) -> bool {
        let oldest = self.revision - self.changes.len() as u64;
        revision >= oldest
    }

    /// The difference to a revision, or the whole list if that is 0.
    fn since(&self, from: u64) -> Vec<MembersUpdate> {
        let mut absent = BTreeSet::new();
        let mut back = BTreeSet::new();
        if from == 0 {
            absent.clone_from(&self.absent);
        } else {
            let count = (self.revision - from) as usize;
            let skipped = self.changes.len() - count;
            for ListChange { name, change } in self.changes.iter().skip(skipped) {
                let (here, there) = match change {
                    Participation::TakesPart => (&mut back, &mut absent),
                    Participation::StaysOut => (&mut absent, &mut back),
                };
                // Who went and came back within the difference was there before.
                if !there.remove(name) {
                    here.insert(name.clone());
                }
            }
        }
        self.parts(from, &absent, &back)
    }

    fn parts(
        &self,
        from: u64,
        absent: &BTreeSet<NodeName>,
        back: &BTreeSet<NodeName>,
    ) -> Vec<MembersUpdate> {
        let count = |names: &BTreeSet<NodeName>| names.len().div_ceil(MEMBER_NAMES_MAX);
        let parts = count(absent).max(count(back)).max(1);
        let part = |names: &BTreeSet<NodeName>, n: usize| {
            let some = names.iter().skip(n * MEMBER_NAMES_MAX);
            let some: BTreeSet<NodeName> = some.take(MEMBER_NAMES_MAX).cloned().collect();
            MemberNames::try_from(some).expect("as many were taken as fit")
        };
        let update = |n: usize| MembersUpdate {
            term: self.term,
            from,
            to: self.revision,
            absent: part(absent, n),
            back: part(back, n),
            parts_left: (parts - 1 - n) as u32,
        };
        (0..parts).map(update).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> NodeName {
        format!("n{n}").parse().expect("a name")
    }

    /// A node that believes what it is told.
    #[derive(Default)]
    struct Told {
        absent: BTreeSet<NodeName>,
        revision: u64,
    }

    impl Told {
        fn take(&mut self, parts: &[MembersUpdate]) {
            for (n, part) in parts.iter().enumerate() {
                assert_eq!(part.parts_left as usize, parts.len() - 1 - n);
                assert!(part.from == 0 || part.from == self.revision);
                if part.from == 0 && n == 0 {
                    self.absent.clear();
                }
                for back in part.back.iter() {
                    assert!(self.absent.remove(back), "{back:?} was not absent");
                }
                for gone in part.absent.iter() {
                    assert!(self.absent.insert(gone.clone()), "{gone:?} was absent");
                }
            }
            self.revision = parts[0].to;
        }
    }

    #[test]
    fn whoever_follows_the_differences_has_the_list() {
        let mut list = MemberList::new(Term(1));
        let mut told: BTreeMap<NodeName, Told> = BTreeMap::new();
        let mut draw = 7usize;
        for round in 0..400 {
            for _ in 0..draw % 41 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let change = match draw >> 60 & 1 {
                    0 => Participation::TakesPart,
                    _ => Participation::StaysOut,
                };
                list.set(&name((draw >> 33) % 500), change);
            }
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if round % 3 == 0 {
                let node = name((draw >> 33) % 5);
                list.connected(&node);
                told.insert(node, Told::default());
            }
            for UpdateFor { node, parts } in list.updates(Duration::ZERO) {
                told.get_mut(&node).expect("it is connected").take(&parts);
            }
            for (node, told) in &told {
                assert_eq!(told.absent, list.absent, "{node:?} in round {round}");
            }
            assert!(list.updates(Duration::ZERO).is_empty());
        }
        assert!(list.revision > REVISIONS_KEPT_MAX as u64 / 2);
    }

    #[test]
    fn who_is_too_far_behind_gets_the_whole_list_and_whole_lists_have_turns() {
        let mut list = MemberList::new(Term(1));
        list.set(&name(0), Participation::StaysOut);
        (0..FULL_LISTS_EACH_SECOND + 5).for_each(|n| list.connected(&name(n)));
        assert_eq!(list.updates(Duration::ZERO).len(), FULL_LISTS_EACH_SECOND);
        assert_eq!(list.updates(Duration::ZERO).len(), 5);
        assert_eq!(list.updates(Duration::ZERO).len(), 0);
        for n in 1..=REVISIONS_KEPT_MAX + 1 {
            list.set(&name(n), Participation::StaysOut);
        }
        let updates = list.updates(Duration::ZERO);
        assert_eq!(updates[0].parts[0].from, 0);
        assert_eq!(
            updates[0].parts.len(),
            (REVISIONS_KEPT_MAX + 2).div_ceil(192)
        );
    }

    #[test]
    fn a_node_that_went_is_told_nothing() {
        let mut list = MemberList::new(Term(1));
        list.connected(&name(1));
        list.disconnected(&name(1));
        list.set(&name(2), Participation::StaysOut);
        assert!(list.updates(Duration::ZERO).is_empty());
    }

    #[test]
    fn who_knows_the_list_is_told_so_again_and_learns_nothing_else() {
        let mut list = MemberList::new(Term(1));
        (0..3).for_each(|n| list.set(&name(n), Participation::StaysOut));
        list.connected(&name(1));
        let mut told = Told::default();
        let mut told_at = Vec::new();
        for second in 0..10 {
            for UpdateFor { parts, .. } in list.updates(Duration::from_secs(second)) {
                told.take(&parts);
                told_at.push(second);
            }
            assert_eq!(told.absent, list.absent);
        }
        assert_eq!(told_at, [0, 4, 8]);
    }

    #[test]
    fn where_all_take_part_a_node_is_told_so_by_one_short_line() {
        let mut list = MemberList::new(Term(1));
        (0..1000).for_each(|n| list.set(&name(n), Participation::TakesPart));
        list.connected(&name(1));
        let updates = list.updates(Duration::ZERO);
        let [UpdateFor { parts, .. }] = &updates[..] else {
            panic!("{updates:?}");
        };
        assert_eq!((parts[0].from, parts[0].to), (0, EMPTY));
        assert_eq!((parts.len(), parts[0].absent.iter().count()), (1, 0));
    }
}
