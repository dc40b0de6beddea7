//! What is told of one disk.

use sublet_types::DiskSettings;

use crate::observe::events::{Cause, EventId, Events, Object, Why};

/// Tells what befalls one disk.
#[derive(Clone, Debug)]
pub(super) struct DiskEvents {
    disk: Object,
    events: Events,
}

impl DiskEvents {
    pub(super) fn of(settings: &DiskSettings, events: &Events) -> DiskEvents {
        let disk = Object::Disk {
            name: settings.name.clone(),
            tenant: Some(settings.tenant.clone()),
        };
        DiskEvents {
            disk,
            events: events.clone(),
        }
    }

    /// Of no disk, for tests.
    #[cfg(test)]
    pub(super) fn of_none() -> DiskEvents {
        DiskEvents {
            disk: Object::None,
            events: Events::default(),
        }
    }

    /// Something befalls it.
    pub(super) fn post(&self, id: EventId, why: Why, more: impl FnOnce(Cause) -> Cause) {
        let cause = Cause::new(id, why).to(self.disk.clone());
        self.events.post(more(cause));
    }
}
