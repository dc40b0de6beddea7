//! What is said of events.

use std::fmt;

use serde::{Deserialize, Serialize};
use sublet_types::{DiskName, TenantName};

/// Something that happened. `docs/events.md` lists the ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 1 on since the daemon started.
    pub seq: u64,
    /// When, in Unix milliseconds; the last time where it happened several times.
    pub at_millis: u64,
    /// Of which kind it is.
    pub id: String,
    /// How much it matters: debug, info, warn, error.
    pub level: String,
    /// To whom; to nobody in particular where null.
    pub object: Option<EventObject>,
    /// How much; all of it where it happened several times.
    pub amount: Option<u64>,
    /// Of what: bytes, pages, items, connections, failures, files, events.
    pub unit: Option<String>,
    /// Why: each id has a few.
    pub reason: String,
    /// By whose word.
    pub actor: EventActor,
    /// How often, within a second.
    pub count: u64,
    /// The same for people.
    pub said: String,
}

/// To whom something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventObject {
    /// To a tenant.
    Tenant {
        /// Which one.
        name: TenantName,
    },
    /// To a disk.
    Disk {
        /// Which one.
        name: DiskName,
        /// Whose, where that is known.
        tenant: Option<TenantName>,
    },
    /// To who comes in at a listener.
    Listener {
        /// Where it is.
        name: String,
        /// Whose, if one tenant's.
        tenant: Option<TenantName>,
    },
}

impl EventObject {
    /// The tenant that it is, or whose it is.
    pub fn tenant(&self) -> Option<&TenantName> {
        match self {
            EventObject::Tenant { name } => Some(name),
            EventObject::Disk { tenant, .. } | EventObject::Listener { tenant, .. } => {
                tenant.as_ref()
            }
        }
    }
}

impl fmt::Display for EventObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventObject::Tenant { name } => write!(f, "tenant {name}"),
            EventObject::Disk { name, .. } => write!(f, "disk {name}"),
            EventObject::Listener { name, .. } => write!(f, "listener {name}"),
        }
    }
}

/// By whose word something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventActor {
    /// The daemon's own.
    Daemon,
    /// A policy's.
    Policy {
        /// Which one.
        name: String,
    },
    /// Who asked at a Unix socket of the admin interface.
    Caller {
        /// The user.
        uid: u32,
        /// The process, where the kernel knows it.
        pid: Option<i32>,
    },
    /// Who showed the token over TCP.
    Remote {
        /// From where, if that is known.
        address: Option<String>,
    },
    /// A client of a tenant.
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
pub struct Events {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Those that were asked for and are there.
    pub events: Vec<Event>,
    /// Since when nothing was forgotten, in Unix seconds.
    pub since: u64,
    /// How many that were asked for are forgotten; null where they are of a run before, of which nothing is known.
    pub lost: Option<u64>,
    /// What to ask for next: `?after=…`.
    pub next: String,
    /// Whether there are more already.
    pub more: bool,
}

/// Which events somebody asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskEvents {
    /// Those after this place: [`Events::next`], or the id of a server-sent event. From the oldest on where nothing is said.
    #[serde(default)]
    pub after: Option<String>,
    /// Those since then, in Unix seconds.
    #[serde(default)]
    pub since: Option<u64>,
    /// Those of this tenant, its disks and its listeners.
    #[serde(default)]
    pub tenant: Option<String>,
}

impl AskEvents {
    /// As the part of an address after `?`.
    pub fn query(&self) -> String {
        let said = [
            self.after.as_ref().map(|after| format!("after={after}")),
            self.since.map(|since| format!("since={since}")),
            self.tenant
                .as_ref()
                .map(|tenant| format!("tenant={tenant}")),
        ];
        said.into_iter().flatten().collect::<Vec<_>>().join("&")
    }
}

/// Events that a follower does not get (`event: gap` among server-sent events).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventGap {
    /// How many; null where they are of a run of the daemon before, of which nothing is known.
    pub lost: Option<u64>,
}
