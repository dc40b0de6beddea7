//! Clients that are not let in: looked for once a second, so that whoever comes again and again is an event a second.

use std::sync::Arc;

use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::ring::serve::Group;
use sublet_types::TenantName;

use super::service::Service;
use crate::observe::events::{Amount, Cause, EventId, Events, Why};

/// Follows who is refused by each tenant's listeners.
pub(crate) struct Refusals {
    events: Events,
    tenants: Vec<Followed>,
}

/// A tenant's listeners, and what they had refused when it was looked last.
struct Followed {
    name: TenantName,
    instance: Arc<Instance>,
    rings: Option<Arc<Group>>,
    before: Refused,
}

/// Connections that were refused since the start: all places taken, a user who may not, nothing left for one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Refused {
    full: u64,
    uid: u64,
    exhausted: u64,
}

impl Refusals {
    /// Of these tenants, told as `events`.
    pub(crate) fn of(services: &[Service], events: &Events) -> Refusals {
        let followed = |service: &Service| Followed {
            name: service.name.clone(),
            instance: Arc::clone(&service.instance),
            rings: service.rings.clone(),
            before: Refused::default(),
        };
        Refusals {
            events: events.clone(),
            tenants: services.iter().map(followed).collect(),
        }
    }

    /// Tells who was refused since the last time.
    pub(crate) fn tell(&mut self) {
        for tenant in &mut self.tenants {
            let now = tenant.refused();
            let before = std::mem::replace(&mut tenant.before, now);
            for (why, more) in now.since(before) {
                let cause = Cause::new(EventId::ConnectionsRefused, why).to_tenant(&tenant.name);
                let cause = cause.times(more).of(Amount::Connections(more));
                self.events.post(cause);
            }
        }
    }
}

impl Followed {
    fn refused(&self) -> Refused {
        let figures = &self.instance.figures;
        let mut refused = Refused {
            full: figures.rejected_connections.get(),
            uid: 0,
            exhausted: figures.listen_disabled.get(),
        };
        if let Some(rings) = &self.rings {
            refused.full += rings.figures.refused_full.get();
            refused.uid += rings.figures.refused_uid.get();
            refused.exhausted += rings.figures.refused_exhausted.get();
        }
        refused
    }
}

impl Refused {
    /// What was refused since, by reason.
    fn since(self, before: Refused) -> impl Iterator<Item = (Why, u64)> {
        let more = [
            (Why::Full, self.full - before.full),
            (Why::Uid, self.uid - before.uid),
            (Why::Exhausted, self.exhausted - before.exhausted),
        ];
        more.into_iter().filter(|(_, more)| *more > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_since_is_told_by_reason() {
        let before = Refused {
            full: 3,
            uid: 1,
            exhausted: 0,
        };
        let now = Refused {
            full: 3,
            uid: 2,
            exhausted: 7,
        };
        let more: Vec<(Why, u64)> = now.since(before).collect();
        assert_eq!(more, [(Why::Uid, 1), (Why::Exhausted, 7)]);
        assert_eq!(now.since(now).count(), 0);
    }
}
