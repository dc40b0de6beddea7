//! Pages whose words are all equal. Such a page is known by its word.

/// The bytes of a word.
const WORD: usize = 8;

/// The word of a page whose words are all equal. It is kept as bytes, so that it fits anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SameWord([u8; WORD]);

impl SameWord {
    /// The word of a page, if all of its words are equal. Most pages show by their first two words that they are not.
    #[inline]
    pub(crate) fn of(page: &[u8]) -> Option<SameWord> {
        let first: [u8; WORD] = page.get(..WORD)?.try_into().ok()?;
        if page.get(WORD..2 * WORD)? != first || !page.len().is_multiple_of(WORD) {
            return None;
        }
        let are_all = page[WORD..] == page[..page.len() - WORD];
        are_all.then_some(SameWord(first))
    }

    /// Writes it over and over.
    pub(crate) fn fill(self, page: &mut [u8]) {
        let words = page.chunks_mut(WORD);
        words.for_each(|word| word.copy_from_slice(&self.0[..word.len()]));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_page_is_known_by_its_word_and_by_no_other(
            word in any::<[u8; 8]>(), len in 2usize..80, at in any::<prop::sample::Index>(), flip in 1u8..,
        ) {
            let mut page = word.repeat(len);
            let found = SameWord::of(&page).expect("all words are equal");
            let mut copy = vec![0xa5; page.len()];
            found.fill(&mut copy);
            prop_assert_eq!(&copy, &page);
            let at = at.index(page.len());
            page[at] ^= flip;
            prop_assert_eq!(SameWord::of(&page), None);
        }
    }

    #[test]
    fn what_has_no_two_words_is_none() {
        assert_eq!(SameWord::of(&[]), None);
        assert_eq!(SameWord::of(&[0; 8]), None);
        assert_eq!(SameWord::of(&[0; 20]), None);
    }
}
