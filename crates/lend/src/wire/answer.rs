//! What a lender says to a request.

use super::head::MessageStatus;
use super::page_set::PageSet;

/// A lender's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request was done for these of its pages. The lender does not have the others any more, or never had them.
    Pages(PageSet),
    /// The lender has no such lease any more.
    LeaseGone,
    /// The lender has no time or memory for the request now.
    Busy,
    /// The lender has the lease, but not these blocks in it, or not for this borrower.
    Refused,
}

/// Why an answer does not suit its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer names pages that the request does not have.
    #[error("the answer names the pages {:#b} of a request of {asked} pages; close the connection", .pages.0)]
    PagesNotAsked {
        /// The pages of the answer.
        pages: PageSet,
        /// The number of pages of the request.
        asked: usize,
    },
    /// A refusal names pages.
    #[error("the answer says {status:?}, and yet names the pages {:#b}; close the connection", .pages.0)]
    PagesDespiteStatus {
        /// The status of the answer.
        status: MessageStatus,
        /// The pages of the answer.
        pages: PageSet,
    },
}

impl Answer {
    /// The pages for which the request was done.
    pub fn pages(self) -> PageSet {
        match self {
            Answer::Pages(pages) => pages,
            Answer::LeaseGone | Answer::Busy | Answer::Refused => PageSet::default(),
        }
    }

    /// The status on the wire.
    pub fn status(self) -> MessageStatus {
        match self {
            Answer::Pages(_) => MessageStatus::Ok,
            Answer::LeaseGone => MessageStatus::LeaseGone,
            Answer::Busy => MessageStatus::Busy,
            Answer::Refused => MessageStatus::Refused,
        }
    }

    /// The answer of this status and set.
    pub(super) fn of(status: MessageStatus, pages: PageSet) -> Result<Answer, AnswerError> {
        let answer = match status {
            MessageStatus::Ok => Answer::Pages(pages),
            MessageStatus::LeaseGone => Answer::LeaseGone,
            MessageStatus::Busy => Answer::Busy,
            MessageStatus::Refused => Answer::Refused,
        };
        match answer.pages() == pages {
            true => Ok(answer),
            false => Err(AnswerError::PagesDespiteStatus { status, pages }),
        }
    }

    /// Checks that it names only pages of a request of `asked` pages.
    pub(super) fn check_against(self, asked: usize) -> Result<(), AnswerError> {
        let pages = self.pages();
        match pages.is_within(PageSet::first(asked)) {
            true => Ok(()),
            false => Err(AnswerError::PagesNotAsked { pages, asked }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_success_names_pages() {
        for answer in [
            Answer::Pages(PageSet(5)),
            Answer::LeaseGone,
            Answer::Busy,
            Answer::Refused,
        ] {
            assert_eq!(Answer::of(answer.status(), answer.pages()), Ok(answer));
        }
        let (status, pages) = (MessageStatus::Busy, PageSet(1));
        let despite = AnswerError::PagesDespiteStatus { status, pages };
        assert_eq!(Answer::of(status, pages), Err(despite));
    }

    #[test]
    fn an_answer_names_only_pages_of_its_request() {
        assert_eq!(Answer::Pages(PageSet(0b111)).check_against(3), Ok(()));
        let pages = PageSet(0b1000);
        let beyond = AnswerError::PagesNotAsked { pages, asked: 3 };
        assert_eq!(Answer::Pages(pages).check_against(3), Err(beyond));
        assert_eq!(Answer::Busy.check_against(0), Ok(()));
    }
}
