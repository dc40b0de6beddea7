//! The messages about events.

use std::fmt;

use serde::{Deserialize, Serialize};
use sublet_types::{DiskName, TenantName};

/// Something that happened. `docs/events.md` lists the ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The event's number, counted from 1 since the daemon started.
    pub seq: u64,
    /// The time, in Unix milliseconds. For an event that happened several times, it is the last time.
    pub at_millis: u64,
    /// The kind of event.
    pub id: String,
    /// The severity: debug, info, warn, error.
    pub level: String,
    /// What the event happened to. Null if it is nothing in particular.
    pub object: Option<EventObject>,
    /// How much it was. For an event that happened several times, it is the sum.
    pub amount: Option<u64>,
    /// The unit of `amount`: bytes, pages, items, connections, failures, files, events.
    pub unit: Option<String>,
    /// The reason. Each id has a few.
    pub reason: String,
    /// Who caused the event.
    pub actor: EventActor,
    /// How often the event happened within a second.
    pub count: u64,
    /// The event as a sentence for people.
    pub said: String,
}

/// What an event happened to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventObject {
    /// A tenant.
    Tenant {
        /// The tenant's name.
        name: TenantName,
    },
    /// A disk.
    Disk {
        /// The disk's name.
        name: DiskName,
        /// The disk's tenant, if it is known.
        tenant: Option<TenantName>,
    },
    /// The clients of a listener.
    Listener {
        /// The listener's address.
        name: String,
        /// The listener's tenant, if it belongs to one.
        tenant: Option<TenantName>,
    },
    /// Another host.
    Peer {
        /// The host's name, or its address if it has proved no name.
        name: String,
    },
}

impl EventObject {
    /// The tenant that the object is, or belongs to.
    pub fn tenant(&self) -> Option<&TenantName> {
        match self {
            EventObject::Tenant { name } => Some(name),
            EventObject::Disk { tenant, .. } | EventObject::Listener { tenant, .. } => {
                tenant.as_ref()
            }
            EventObject::Peer { .. } => None,
        }
    }
}

impl fmt::Display for EventObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventObject::Tenant { name } => write!(f, "tenant {name}"),
            EventObject::Disk { name, .. } => write!(f, "disk {name}"),
            EventObject::Listener { name, .. } => write!(f, "listener {name}"),
            EventObject::Peer { name } => write!(f, "peer {name}"),
        }
    }
}

/// Who caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventActor {
    /// The daemon itself.
    Daemon,
    /// A policy.
    Policy {
        /// The policy's name.
        name: String,
    },
    /// A program at a Unix socket of the admin interface.
    Caller {
        /// The user id.
        uid: u32,
        /// The process id, if the kernel knows it.
        pid: Option<i32>,
    },
    /// A caller over TCP who sent the token.
    Remote {
        /// The caller's address, if it is known.
        address: Option<String>,
    },
    /// A tenant's client.
    Client,
}

impl fmt::Display for EventActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventActor::Daemon => write!(f, "the daemon"),
            EventActor::Policy { name } => write!(f, "policy {name}"),
            EventActor::Caller {
                uid,
                pid: Some(pid),
            } => write!(f, "uid {uid} (process {pid})"),
            EventActor::Caller { uid, pid: None } => write!(f, "uid {uid}"),
            EventActor::Remote {
                address: Some(address),
            } => write!(f, "{address}"),
            EventActor::Remote { address: None } => write!(f, "somebody over TCP"),
            EventActor::Client => write!(f, "a client"),
        }
    }
}

/// Events, the oldest first (`GET /v1/events`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventList {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The events that match the query and are still in memory.
    pub events: Vec<Event>,
    /// Since when the daemon has forgotten nothing, in Unix seconds.
    pub since: u64,
    /// How many matching events are forgotten. Null if they are from an earlier run, of which nothing is known.
    pub lost: Option<u64>,
    /// The query for the next events: `?after=…`.
    pub next: String,
    /// Whether there are more already.
    pub more: bool,
}

/// A query for events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Events after this place, which is [`EventList::next`] or the id of a server-sent event. Without it, events begin
    /// with the oldest.
    #[serde(default)]
    pub after: Option<String>,
    /// Events since then, in Unix seconds.
    #[serde(default)]
    pub since: Option<u64>,
    /// Events of this tenant, its disks and its listeners.
    #[serde(default)]
    pub tenant: Option<String>,
}

impl EventsQuery {
    /// The query as the part of an address after `?`.
    pub fn query(&self) -> String {
        let pairs = [
            self.after.as_ref().map(|after| format!("after={after}")),
            self.since.map(|since| format!("since={since}")),
            self.tenant
                .as_ref()
                .map(|tenant| format!("tenant={tenant}")),
        ];
        pairs.into_iter().flatten().collect::<Vec<_>>().join("&")
    }
}

/// Events that a follower does not get. Among server-sent events this is `event: gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventGap {
    /// How many events. Null if they are from an earlier run of the daemon, of which nothing is known.
    pub lost: Option<u64>,
}
