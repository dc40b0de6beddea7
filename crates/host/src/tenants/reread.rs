//! What became of files that were to be read anew.

use std::fmt::Display;
use std::path::Path;

/// What became of each file.
#[derive(Default)]
pub(crate) struct Reread {
    pub(crate) read: Vec<String>,
    pub(crate) refused: Vec<String>,
}

impl Reread {
    /// Notes files that belong together. Where they are refused, what was read of them before holds.
    pub(crate) fn note(
        &mut self,
        files: &[&(impl AsRef<Path> + ?Sized)],
        read: Result<(), impl Display>,
    ) {
        let names = files.iter().map(|file| file.as_ref().display().to_string());
        match read {
            Ok(()) => self.read.extend(names),
            Err(error) => {
                let names: Vec<String> = names.collect();
                tracing::warn!(files = names.join(", "), %error, "SIGHUP: refused, and what was read before holds");
                self.refused.extend(names);
            }
        }
    }
}
