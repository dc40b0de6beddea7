//! Finds the nearest right word to a wrong one.

/// The candidate that is most likely meant by `wrong`, if any is near.
pub fn nearest<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let edits_max = (wrong.len() / 3).max(2);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= edits_max && *edits < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        let words = || ["weight", "floor", "ceiling"].into_iter();
        assert_eq!(nearest("wieght", words()), Some("weight"));
        assert_eq!(nearest("cieling", words()), Some("ceiling"));
        assert_eq!(nearest("florr", words()), Some("floor"));
        assert_eq!(nearest("bananas", words()), None);
    }
}
