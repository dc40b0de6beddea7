//! The events of one disk.

use sublet_types::DiskSettings;

use crate::observe::events::{EventId, EventReason, EventSubject, Events, PostedEvent};

/// Posts the events of one disk.
#[derive(Clone, Debug)]
pub(super) struct DiskEvents {
    disk: EventSubject,
    events: Events,
}

impl DiskEvents {
    pub(super) fn of(settings: &DiskSettings, events: &Events) -> DiskEvents {
        let disk = EventSubject::Disk {
            name: settings.name.clone(),
            tenant: Some(settings.tenant.clone()),
        };
        DiskEvents {
            disk,
            events: events.clone(),
        }
    }

    /// Events of no disk, for tests.
    #[cfg(test)]
    pub(super) fn of_none() -> DiskEvents {
        DiskEvents {
            disk: EventSubject::None,
            events: Events::default(),
        }
    }

    /// Posts something that happens to the disk.
    pub(super) fn post(
        &self,
        id: EventId,
        why: EventReason,
        more: impl FnOnce(PostedEvent) -> PostedEvent,
    ) {
        let cause = PostedEvent::new(id, why).to(self.disk.clone());
        self.events.post(more(cause));
    }
}
