//! An event as programs outside get it.

use sublet_client::messages;

use super::event::{Actor, Event, EventSubject};

impl From<&Event> for messages::Event {
    fn from(event: &Event) -> messages::Event {
        let cause = &event.cause;
        let row = cause.id.description();
        let detail = cause.detail.to_string();
        let said = match detail.is_empty() {
            true => row.says.to_owned(),
            false => format!("{}: {detail}", row.says),
        };
        messages::Event {
            seq: event.seq,
            at_millis: event.at_millis,
            id: row.name.to_owned(),
            level: row.level.name().to_owned(),
            object: object(&cause.object),
            amount: cause.amount.map(|amount| amount.value()),
            unit: cause.amount.map(|amount| amount.unit().to_owned()),
            reason: cause.why.name().to_owned(),
            actor: actor(&cause.actor),
            count: cause.count,
            said,
        }
    }
}

fn object(object: &EventSubject) -> Option<messages::EventObject> {
    Some(match object {
        EventSubject::None => return None,
        EventSubject::Tenant(name) => messages::EventObject::Tenant { name: name.clone() },
        EventSubject::Disk { name, tenant } => messages::EventObject::Disk {
            name: name.clone(),
            tenant: tenant.clone(),
        },
        EventSubject::Listener { place, tenant } => messages::EventObject::Listener {
            name: place.to_string(),
            tenant: tenant.clone(),
        },
        EventSubject::Peer(name) => messages::EventObject::Peer {
            name: name.to_string(),
        },
    })
}

fn actor(actor: &Actor) -> messages::EventActor {
    match actor {
        Actor::Daemon => messages::EventActor::Daemon,
        Actor::Policy(name) => messages::EventActor::Policy {
            name: (*name).to_owned(),
        },
        Actor::Caller { uid, pid } => messages::EventActor::Caller {
            uid: *uid,
            pid: *pid,
        },
        Actor::Remote(address) => messages::EventActor::Remote {
            address: address.map(|address| address.to_string()),
        },
        Actor::Client => messages::EventActor::Client,
    }
}
