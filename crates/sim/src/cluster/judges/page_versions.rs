//! What may come back of one page, while calls overlap.

use crate::virtual_time::VirtualInstant;

/// What a page is: a version of it, or gone.
pub(in crate::cluster) type PageState = Option<u32>;

/// What a page may be, and since when.
#[derive(Clone, Copy, Debug)]
struct PossibleState {
    state: PageState,
    /// When the call that made it so was answered; [`VirtualInstant::NEVER`] if it was not.
    answered: VirtualInstant,
}

/// All that a page may be now. Most often it is one thing. It may be several while writes of it overlap.
///
/// A write makes its version possible when it begins. When it is answered, it ends what was answered before it began.
/// What is written meanwhile stays possible, because nobody knows the order.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster) struct PageVersions {
    possible: Vec<PossibleState>,
}

impl PageVersions {
    /// A page that is surely this.
    pub(in crate::cluster) fn of(state: PageState) -> PageVersions {
        let mut versions = PageVersions::default();
        versions.settle(state);
        versions
    }

    /// The page is this from now on, and no call of it is open.
    pub(in crate::cluster) fn settle(&mut self, state: PageState) {
        self.possible.clear();
        self.possible.push(PossibleState {
            state,
            answered: VirtualInstant::START,
        });
    }

    /// A call begins that makes the page this.
    pub(in crate::cluster) fn begin(&mut self, state: PageState) {
        self.possible.push(PossibleState {
            state,
            answered: VirtualInstant::NEVER,
        });
    }

    /// Such a call is answered.
    pub(in crate::cluster) fn end(
        &mut self,
        state: PageState,
        began: VirtualInstant,
        answered: VirtualInstant,
    ) {
        let open = |each: &&mut PossibleState| {
            each.state == state && each.answered == VirtualInstant::NEVER
        };
        if let Some(own) = self.possible.iter_mut().find(open) {
            own.answered = answered;
        }
        self.possible.retain(|each| each.answered >= began);
    }

    /// All that it may be.
    pub(in crate::cluster) fn states(&self) -> Vec<PageState> {
        self.possible.iter().map(|each| each.state).collect()
    }

    /// Whether it may be this.
    pub(in crate::cluster) fn may_be(&self, state: PageState) -> bool {
        self.possible.iter().any(|each| each.state == state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(instant: u64) -> VirtualInstant {
        VirtualInstant(instant)
    }

    #[test]
    fn a_write_that_is_answered_ends_what_was_answered_before_it_began() {
        let mut page = PageVersions::of(Some(0));
        page.begin(Some(1));
        assert_eq!(page.states(), [Some(0), Some(1)]);
        page.end(Some(1), at(10), at(20));
        assert_eq!(page.states(), [Some(1)]);
        page.begin(None);
        page.end(None, at(30), at(40));
        assert_eq!(page.states(), [None]);
    }

    #[test]
    fn writes_that_overlap_may_come_in_either_order_until_a_later_one() {
        let mut page = PageVersions::of(Some(0));
        page.begin(Some(1));
        page.begin(Some(2));
        page.end(Some(1), at(10), at(30));
        page.end(Some(2), at(20), at(40));
        assert!(page.may_be(Some(1)) && page.may_be(Some(2)) && !page.may_be(Some(0)));
        page.begin(Some(3));
        page.end(Some(3), at(50), at(60));
        assert_eq!(page.states(), [Some(3)]);
    }

    #[test]
    fn a_write_without_an_answer_may_come_at_any_later_time() {
        let mut page = PageVersions::of(Some(0));
        page.begin(Some(1));
        page.begin(Some(2));
        page.end(Some(2), at(50), at(60));
        assert_eq!(page.states(), [Some(1), Some(2)]);
    }
}
