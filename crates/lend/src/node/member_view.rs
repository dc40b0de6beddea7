//! Which members take no part, as the leader tells it.

use std::collections::BTreeSet;

use super::settings::MEMBERS_MAX;
use crate::control::MembersUpdate;
use crate::ids::NodeName;

/// What a leader's list says of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// It takes part.
    TakesPart,
    /// It does not.
    Absent,
    /// The list is not known.
    Unknown,
}

/// Parts of an update that are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenUpdate {
    to: u64,
    parts_left: u32,
}

/// The leader's list, as far as it was told. Names that this node does not know are on it, too: its leader may have heard
/// of them first. They are [`MEMBERS_MAX`] at most.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberView {
    absent: BTreeSet<NodeName>,
    /// 0 if the list is not known.
    revision: u64,
    open: Option<OpenUpdate>,
}

impl MemberView {
    /// Forgets the list: another session with the leader begins.
    pub(super) fn clear(&mut self) {
        *self = MemberView::default();
    }

    /// What the list says of a member.
    pub(super) fn listing(&self, name: &NodeName) -> Listing {
        match (self.revision, self.absent.contains(name)) {
            (0, _) => Listing::Unknown,
            (_, true) => Listing::Absent,
            (_, false) => Listing::TakesPart,
        }
    }

    /// How many members take no part. `None` if the list is not known.
    pub(super) fn absent(&self) -> Option<usize> {
        (self.revision > 0).then_some(self.absent.len())
    }

    /// Takes a part of an update in. After one that does not fit, or that names more than a cluster has members, the list
    /// is not known until a whole one comes.
    pub(super) fn update(&mut self, update: &MembersUpdate) {
        let fits = match self.open {
            Some(open) => {
                open.to == update.to && open.parts_left.checked_sub(1) == Some(update.parts_left)
            }
            None => update.from == 0 || update.from == self.revision,
        };
        if !fits {
            return self.clear();
        }
        if update.from == 0 && self.open.is_none() {
            self.clear();
        }
        for name in update.back.iter() {
            self.absent.remove(name);
        }
        self.absent.extend(update.absent.iter().cloned());
        if self.absent.len() > MEMBERS_MAX {
            return self.clear();
        }
        let OpenUpdate { to, parts_left } = OpenUpdate {
            to: update.to,
            parts_left: update.parts_left,
        };
        match parts_left {
            0 => (self.revision, self.open) = (to, None),
            _ => (self.revision, self.open) = (0, Some(OpenUpdate { to, parts_left })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{MEMBER_NAMES_MAX, MemberNames};
    use crate::ids::Term;

    fn name(text: &str) -> NodeName {
        text.parse().expect("a name")
    }

    fn names(text: &str) -> MemberNames {
        let names: BTreeSet<NodeName> = text.split_whitespace().map(name).collect();
        MemberNames::try_from(names).expect("few names")
    }

    fn update(
        (from, to): (u64, u64),
        (absent, back): (&str, &str),
        parts_left: u32,
    ) -> MembersUpdate {
        MembersUpdate {
            term: Term(1),
            from,
            to,
            absent: names(absent),
            back: names(back),
            parts_left,
        }
    }

    #[test]
    fn a_list_is_known_when_all_its_parts_are_in() {
        let mut view = MemberView::default();
        assert_eq!(view.listing(&name("a")), Listing::Unknown);
        view.update(&update((0, 5), ("a", ""), 1));
        assert_eq!(view.listing(&name("a")), Listing::Unknown);
        view.update(&update((0, 5), ("b", ""), 0));
        assert_eq!(view.listing(&name("a")), Listing::Absent);
        assert_eq!(view.listing(&name("c")), Listing::TakesPart);
        view.update(&update((5, 7), ("c", "a"), 0));
        assert_eq!(view.listing(&name("a")), Listing::TakesPart);
        assert_eq!(view.listing(&name("c")), Listing::Absent);
        assert_eq!(view.absent(), Some(2));
    }

    #[test]
    fn after_a_gap_nothing_is_known_until_a_whole_list_comes() {
        for gap in [update((6, 8), ("c", ""), 0), update((4, 8), ("c", ""), 0)] {
            let mut view = MemberView::default();
            view.update(&update((0, 5), ("a b", ""), 0));
            view.update(&gap);
            assert_eq!(view.listing(&name("a")), Listing::Unknown);
            view.update(&update((0, 9), ("c", ""), 0));
            assert_eq!(view.listing(&name("a")), Listing::TakesPart);
            assert_eq!(view.listing(&name("c")), Listing::Absent);
        }
        let mut view = MemberView::default();
        view.update(&update((0, 5), ("a", ""), 2));
        view.update(&update((0, 5), ("b", ""), 0));
        assert_eq!(view.absent(), None);
    }
    #[test]
    fn a_leader_that_names_ever_more_nodes_makes_no_longer_list() {
        let mut view = MemberView::default();
        let mut longest = 0;
        for revision in 1..200 {
            let names: BTreeSet<NodeName> = (0..MEMBER_NAMES_MAX)
                .map(|n| name(&format!("r{revision}-{n}")))
                .collect();
            view.update(&MembersUpdate {
                term: Term(1),
                from: if view.absent().is_some() { revision } else { 0 },
                to: revision + 1,
                absent: MemberNames::try_from(names).expect("as many as there may be"),
                back: MemberNames::default(),
                parts_left: 0,
            });
            longest = longest.max(view.absent.len());
        }
        assert!(longest <= MEMBERS_MAX, "{longest} names");
        assert!(longest > MEMBERS_MAX - MEMBER_NAMES_MAX);
    }
}
