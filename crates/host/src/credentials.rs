//! What became of files of passwords and certificates that were to be read.

use std::convert::Infallible;
use std::fmt::Display;
use std::path::Path;

use crate::observe::events::{Amount, Cause, EventId, Events, Object, Why};

/// What became of each file.
pub(crate) struct CredentialFiles {
    events: Events,
    why: Why,
    pub(crate) read: Vec<String>,
    pub(crate) refused: Vec<String>,
}

impl CredentialFiles {
    /// Nothing yet; each is told as one of `events`.
    pub(crate) fn new(events: &Events, why: Why) -> CredentialFiles {
        CredentialFiles {
            events: events.clone(),
            why,
            read: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Notes files that belong together, and to whom, as read.
    pub(crate) fn note_read(&mut self, whose: Object, files: &[&(impl AsRef<Path> + ?Sized)]) {
        self.note(whose, files, Ok::<(), Infallible>(()));
    }

    /// Notes files that belong together, and to whom. Where they are refused, what was read of them before holds.
    pub(crate) fn note(
        &mut self,
        whose: Object,
        files: &[&(impl AsRef<Path> + ?Sized)],
        read: Result<(), impl Display>,
    ) {
        let names = files.iter().map(|file| file.as_ref().display().to_string());
        let names: Vec<String> = names.collect();
        let told = |id| {
            let cause = Cause::new(id, self.why).to(whose);
            cause.of(Amount::Files(files.len() as u64))
        };
        let listed = names.join(", ");
        match read {
            Ok(()) => {
                self.events
                    .post(told(EventId::CredentialsRead).saying(listed));
                self.read.extend(names);
            }
            Err(error) => {
                let says = format_args!("{listed}: {error}");
                self.events
                    .post(told(EventId::CredentialsRefused).saying(says));
                self.refused.extend(names);
            }
        }
    }
}
