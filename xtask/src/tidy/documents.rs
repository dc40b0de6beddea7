//! Checks that the front documents exist and stay short.

use std::path::Path;

use super::complaint::Complaint;

/// The most lines of a document.
const LINES_MAX: [(&str, usize); 2] = [("README.md", 120), ("ARCHITECTURE.md", 250)];

/// Documents that every reader expects.
const EXPECTED: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "PROMISES.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/decisions/README.md",
];

/// Complains about a document that is too long to be read to its end.
pub(crate) fn too_long(path: &Path, text: &str) -> Vec<Complaint> {
    let limit = LINES_MAX.iter().find(|(name, _)| path == Path::new(name));
    let lines = text.lines().count();
    match limit {
        Some((_, max)) if lines > *max => {
            let what = format!("{lines} lines, {max} at most");
            vec![Complaint::new(path, *max, what, "move details to docs/")]
        }
        _ => Vec::new(),
    }
}

/// Complains about expected documents that are missing.
pub(crate) fn missing(root: &Path) -> Vec<Complaint> {
    let is_missing = |name: &&&str| !root.join(name).is_file();
    let complain = |name: &&str| Complaint::new(Path::new(name), 1, "missing", "write it");
    EXPECTED.iter().filter(is_missing).map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_front_door_is_complained_of() {
        let readme = Path::new("README.md");
        assert!(too_long(readme, &"a\n".repeat(120)).is_empty());
        assert_eq!(too_long(readme, &"a\n".repeat(121)).len(), 1);
        assert!(too_long(Path::new("docs/README.md"), &"a\n".repeat(121)).is_empty());
    }

    #[test]
    fn an_empty_checkout_lacks_every_document() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(missing(folder.path()).len(), EXPECTED.len());
    }
}
