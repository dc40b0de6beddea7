//! An event: what happened, to whom, how much of it, why, and by whose word.

use std::fmt;
use std::net::IpAddr;

use sublet_store::Released;
use sublet_types::{Bytes, DiskName, Pages, TenantName};

use super::id::EventId;
use super::record::PolicyRecord;
use super::why::Why;

/// What a text of an event may take; what is longer is cut.
const TEXT_BYTES_MAX: usize = 512;

/// To whom something happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// To the daemon, or to everybody.
    None,
    /// To a tenant.
    Tenant(TenantName),
    /// To a disk of a tenant.
    Disk {
        /// Which disk.
        name: DiskName,
        /// Whose, where that is known.
        tenant: Option<TenantName>,
    },
    /// To whoever comes in at a listener.
    Listener {
        /// Its address.
        place: Box<str>,
        /// Whose it is, if one tenant's.
        tenant: Option<TenantName>,
    },
}

impl Object {
    /// Whose it is, or who it is.
    pub fn tenant(&self) -> Option<&TenantName> {
        match self {
            Object::None => None,
            Object::Tenant(tenant) => Some(tenant),
            Object::Disk { tenant, .. } | Object::Listener { tenant, .. } => tenant.as_ref(),
        }
    }

    fn text_bytes(&self) -> usize {
        let name = match self {
            Object::None | Object::Tenant(_) => 0,
            Object::Disk { name, .. } => name.as_str().len(),
            Object::Listener { place, .. } => place.len(),
        };
        name + self.tenant().map_or(0, |tenant| tenant.as_str().len())
    }
}

/// How much of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Memory.
    Bytes(Bytes),
    /// Pages.
    Pages(u64),
    /// Items.
    Items(u64),
    /// Connections.
    Connections(u64),
    /// How often something failed.
    Failures(u64),
    /// Files.
    Files(u64),
    /// Events.
    Events(u64),
}

impl Amount {
    /// The number.
    pub fn value(self) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes.0,
            Amount::Pages(n)
            | Amount::Items(n)
            | Amount::Connections(n)
            | Amount::Failures(n)
            | Amount::Files(n)
            | Amount::Events(n) => n,
        }
    }

    /// Of what.
    pub fn unit(self) -> &'static str {
        match self {
            Amount::Bytes(_) => "bytes",
            Amount::Pages(_) => "pages",
            Amount::Items(_) => "items",
            Amount::Connections(_) => "connections",
            Amount::Failures(_) => "failures",
            Amount::Files(_) => "files",
            Amount::Events(_) => "events",
        }
    }

    /// So much and so much more, of the same unit.
    fn plus(self, more: Amount) -> Amount {
        let sum = self.value().saturating_add(more.value());
        match self {
            Amount::Bytes(_) => Amount::Bytes(Bytes(sum)),
            Amount::Pages(_) => Amount::Pages(sum),
            Amount::Items(_) => Amount::Items(sum),
            Amount::Connections(_) => Amount::Connections(sum),
            Amount::Failures(_) => Amount::Failures(sum),
            Amount::Files(_) => Amount::Files(sum),
            Amount::Events(_) => Amount::Events(sum),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Bytes(bytes) => write!(f, "{bytes}"),
            _ => write!(f, "{} {}", self.value(), self.unit()),
        }
    }
}

/// By whose word something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The daemon's own.
    Daemon,
    /// A policy's.
    Policy(&'static str),
    /// Somebody's who asked at a Unix socket of the admin interface: the kernel says who.
    Caller {
        /// The user.
        uid: u32,
        /// The process, where the kernel knows it.
        pid: Option<i32>,
    },
    /// Somebody's who showed the token over TCP.
    Remote(Option<IpAddr>),
    /// A tenant's client's.
    Client,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Daemon => write!(f, "daemon"),
            Actor::Policy(name) => write!(f, "policy {name}"),
            Actor::Caller { uid, pid } => {
                write!(f, "uid {uid}")?;
                pid.map_or(Ok(()), |pid| write!(f, " pid {pid}"))
            }
            Actor::Remote(Some(address)) => write!(f, "{address}"),
            Actor::Remote(None) => write!(f, "somebody over TCP"),
            Actor::Client => write!(f, "a client"),
        }
    }
}

/// What an event says beside what all of its kind say.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// This; the last one where several are one event.
    Text(Box<str>),
    /// What a release lost and kept.
    Released(Released),
    /// What a policy decided about a tenant, or what a tenant lost.
    Policy(Box<PolicyRecord>),
}

impl Detail {
    fn add(&mut self, later: Detail) {
        match (self, later) {
            (Detail::Released(sum), Detail::Released(more)) => *sum += more,
            (Detail::Policy(record), Detail::Policy(later)) => record.add(*later),
            (before, later) => *before = later,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Detail::None | Detail::Released(_) => 0,
            Detail::Text(text) => text.len(),
            Detail::Policy(record) => record.bytes(),
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::None => Ok(()),
            Detail::Text(text) => write!(f, "{text}"),
            Detail::Released(Released {
                items_lost,
                pages_lost: Pages(pages_lost),
                bytes_kept,
                ..
            }) => write!(
                f,
                "{items_lost} items and {pages_lost} pages lost, {bytes_kept} copied together"
            ),
            Detail::Policy(record) => write!(f, "{}", record.why()),
        }
    }
}

/// What is posted: an event that has no place among the others yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub(super) id: EventId,
    pub(super) why: Why,
    pub(super) object: Object,
    pub(super) amount: Option<Amount>,
    pub(super) actor: Actor,
    pub(super) detail: Detail,
    pub(super) count: u64,
}

impl Cause {
    /// Something happened, once, to nobody in particular, by the daemon's own word.
    pub fn new(id: EventId, why: Why) -> Cause {
        debug_assert!(id.row().whys.contains(&why), "{id:?} has no {why:?}");
        Cause {
            id,
            why,
            object: Object::None,
            amount: None,
            actor: Actor::Daemon,
            detail: Detail::None,
            count: 1,
        }
    }

    /// It happened to `object`.
    pub fn to(self, object: Object) -> Cause {
        Cause { object, ..self }
    }

    /// It happened to a tenant.
    pub fn to_tenant(self, name: &TenantName) -> Cause {
        self.to(Object::Tenant(name.clone()))
    }

    /// The tenant that it happened to, or whose it was that it happened to.
    pub fn tenant(&self) -> Option<&TenantName> {
        self.object.tenant()
    }

    /// So much of it.
    pub fn of(self, amount: Amount) -> Cause {
        Cause {
            amount: Some(amount),
            ..self
        }
    }

    /// By `actor`'s word.
    pub fn by(self, actor: Actor) -> Cause {
        Cause { actor, ..self }
    }

    /// It says this besides.
    pub fn saying(self, text: impl fmt::Display) -> Cause {
        let mut text = text.to_string();
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        self.with(Detail::Text(text.into()))
    }

    /// It has this detail.
    pub fn with(self, detail: Detail) -> Cause {
        Cause { detail, ..self }
    }

    /// It happened so often.
    pub fn times(self, count: u64) -> Cause {
        Cause { count, ..self }
    }

    /// What repeats is one event: the amounts add up.
    pub(super) fn add(&mut self, later: Cause) {
        self.count = self.count.saturating_add(later.count);
        self.amount = match (self.amount, later.amount) {
            (Some(sum), Some(more)) => Some(sum.plus(more)),
            (before, later) => later.or(before),
        };
        self.detail.add(later.detail);
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place among all events since the start, from 1 on, without gaps.
    pub seq: u64,
    /// When, in Unix milliseconds; the last time where it happened several times.
    pub at_millis: u64,
    pub(super) cause: Cause,
}

impl Event {
    /// Which kind.
    pub fn id(&self) -> EventId {
        self.cause.id
    }

    /// To whom.
    pub fn object(&self) -> &Object {
        &self.cause.object
    }

    /// What a policy decided, or what a tenant lost, if it is about that.
    pub fn policy(&self) -> Option<&PolicyRecord> {
        match &self.cause.detail {
            Detail::Policy(record) => Some(record),
            _ => None,
        }
    }

    /// What it takes in memory, its place in the ring included.
    pub(super) fn bytes(&self) -> usize {
        // An `Arc` has two counts in front; a list that grows has twice the places that it needs; what is allocated is rounded up.
        const BESIDES: usize = 2 * size_of::<usize>() + 2 * size_of::<usize>() + 32;
        size_of::<Event>() + BESIDES + self.cause.object.text_bytes() + self.cause.detail.bytes()
    }
}
