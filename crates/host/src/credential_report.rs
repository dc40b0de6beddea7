//! What happened to the files of passwords and certificates that were to be read.

use std::convert::Infallible;
use std::fmt::Display;
use std::path::Path;

use crate::observe::events::{
    EventAmount, EventId, EventReason, EventSubject, Events, PostedEvent,
};

/// What happened to each file.
pub(crate) struct CredentialReport {
    events: Events,
    why: EventReason,
    pub(crate) read: Vec<String>,
    pub(crate) refused: Vec<String>,
}

impl CredentialReport {
    /// An empty report. Each file is posted as one of `events`.
    pub(crate) fn new(events: &Events, why: EventReason) -> CredentialReport {
        CredentialReport {
            events: events.clone(),
            why,
            read: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Records that files that belong together were read, and for which object.
    pub(crate) fn record_read(
        &mut self,
        whose: EventSubject,
        files: &[&(impl AsRef<Path> + ?Sized)],
    ) {
        self.record(whose, files, Ok::<(), Infallible>(()));
    }

    /// Records files that belong together, and for which object. If they are refused, what was read of them before
    /// holds.
    pub(crate) fn record(
        &mut self,
        whose: EventSubject,
        files: &[&(impl AsRef<Path> + ?Sized)],
        read: Result<(), impl Display>,
    ) {
        let names = files.iter().map(|file| file.as_ref().display().to_string());
        let names: Vec<String> = names.collect();
        let told = |id| {
            let cause = PostedEvent::new(id, self.why).to(whose);
            cause.of(EventAmount::Files(files.len() as u64))
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
