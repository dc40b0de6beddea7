//! An event: what happened, to which object, how much of it, why, and by whose word.

use std::fmt;
use std::net::IpAddr;

use sublet_store::ReleaseOutcome;
use sublet_types::{Bytes, DiskName, Pages, TenantName};

use super::id::EventId;
use super::reason::EventReason;
use super::record::PolicyRecord;

/// The longest text of an event in bytes. A longer text is cut.
const TEXT_BYTES_MAX: usize = 512;

/// The object to which something happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventSubject {
    /// The daemon, or everybody.
    None,
    /// A tenant.
    Tenant(TenantName),
    /// A disk of a tenant.
    Disk {
        /// Which disk.
        name: DiskName,
        /// The disk's tenant, if it is known.
        tenant: Option<TenantName>,
    },
    /// A client that comes in at a listener.
    Listener {
        /// Its address.
        place: Box<str>,
        /// The listener's tenant, if it belongs to one tenant.
        tenant: Option<TenantName>,
    },
    /// Another host: its name, or its address if it has proved no name.
    Peer(Box<str>),
}

impl EventSubject {
    /// The tenant that the object is or belongs to.
    pub fn tenant(&self) -> Option<&TenantName> {
        match self {
            EventSubject::None | EventSubject::Peer(_) => None,
            EventSubject::Tenant(tenant) => Some(tenant),
            EventSubject::Disk { tenant, .. } | EventSubject::Listener { tenant, .. } => {
                tenant.as_ref()
            }
        }
    }

    fn text_bytes(&self) -> usize {
        let name = match self {
            EventSubject::None | EventSubject::Tenant(_) => 0,
            EventSubject::Disk { name, .. } => name.as_str().len(),
            EventSubject::Listener { place, .. } => place.len(),
            EventSubject::Peer(name) => name.len(),
        };
        name + self.tenant().map_or(0, |tenant| tenant.as_str().len())
    }
}

/// An amount and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAmount {
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

impl EventAmount {
    /// The number.
    pub fn value(self) -> u64 {
        match self {
            EventAmount::Bytes(bytes) => bytes.0,
            EventAmount::Pages(n)
            | EventAmount::Items(n)
            | EventAmount::Connections(n)
            | EventAmount::Failures(n)
            | EventAmount::Files(n)
            | EventAmount::Events(n) => n,
        }
    }

    /// Of what.
    pub fn unit(self) -> &'static str {
        match self {
            EventAmount::Bytes(_) => "bytes",
            EventAmount::Pages(_) => "pages",
            EventAmount::Items(_) => "items",
            EventAmount::Connections(_) => "connections",
            EventAmount::Failures(_) => "failures",
            EventAmount::Files(_) => "files",
            EventAmount::Events(_) => "events",
        }
    }

    /// The sum of two amounts of the same unit.
    fn plus(self, more: EventAmount) -> EventAmount {
        let sum = self.value().saturating_add(more.value());
        match self {
            EventAmount::Bytes(_) => EventAmount::Bytes(Bytes(sum)),
            EventAmount::Pages(_) => EventAmount::Pages(sum),
            EventAmount::Items(_) => EventAmount::Items(sum),
            EventAmount::Connections(_) => EventAmount::Connections(sum),
            EventAmount::Failures(_) => EventAmount::Failures(sum),
            EventAmount::Files(_) => EventAmount::Files(sum),
            EventAmount::Events(_) => EventAmount::Events(sum),
        }
    }
}

impl fmt::Display for EventAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventAmount::Bytes(bytes) => write!(f, "{bytes}"),
            _ => write!(f, "{} {}", self.value(), self.unit()),
        }
    }
}

/// By whose word something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The daemon itself.
    Daemon,
    /// A policy's.
    Policy(&'static str),
    /// A caller at a Unix socket of the admin interface. The kernel says who it is.
    Caller {
        /// The user.
        uid: u32,
        /// The process, if the kernel knows it.
        pid: Option<i32>,
    },
    /// A caller that showed the token over TCP.
    Remote(Option<IpAddr>),
    /// A tenant's client.
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

/// What an event says beside what all events of its kind say.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum EventDetail {
    /// Nothing.
    #[default]
    None,
    /// This text. If several causes are one event, the text of the last one.
    Text(Box<str>),
    /// What a release lost and kept.
    Released(ReleaseOutcome),
    /// What a policy decided about a tenant, or what a tenant lost.
    Policy(Box<PolicyRecord>),
}

impl EventDetail {
    fn add(&mut self, later: EventDetail) {
        match (self, later) {
            (EventDetail::Released(sum), EventDetail::Released(more)) => *sum += more,
            (EventDetail::Policy(record), EventDetail::Policy(later)) => record.add(*later),
            (before, later) => *before = later,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            EventDetail::None | EventDetail::Released(_) => 0,
            EventDetail::Text(text) => text.len(),
            EventDetail::Policy(record) => record.bytes(),
        }
    }
}

impl fmt::Display for EventDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventDetail::None => Ok(()),
            EventDetail::Text(text) => write!(f, "{text}"),
            EventDetail::Released(ReleaseOutcome {
                items_lost,
                pages_lost: Pages(pages_lost),
                bytes_kept,
                ..
            }) => write!(
                f,
                "{items_lost} items and {pages_lost} pages lost, {bytes_kept} copied together"
            ),
            EventDetail::Policy(record) => write!(f, "{}", record.why()),
        }
    }
}

/// A cause that is posted: an event that has no number yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedEvent {
    pub(super) id: EventId,
    pub(super) why: EventReason,
    pub(super) object: EventSubject,
    pub(super) amount: Option<EventAmount>,
    pub(super) actor: Actor,
    pub(super) detail: EventDetail,
    pub(super) count: u64,
}

impl PostedEvent {
    /// Something that happened once, to no object in particular, by the daemon's own word.
    pub fn new(id: EventId, why: EventReason) -> PostedEvent {
        debug_assert!(
            id.description().reasons.contains(&why),
            "{id:?} has no {why:?}"
        );
        PostedEvent {
            id,
            why,
            object: EventSubject::None,
            amount: None,
            actor: Actor::Daemon,
            detail: EventDetail::None,
            count: 1,
        }
    }

    /// Sets the object to which it happened.
    pub fn to(self, object: EventSubject) -> PostedEvent {
        PostedEvent { object, ..self }
    }

    /// Sets a tenant as the object.
    pub fn to_tenant(self, name: &TenantName) -> PostedEvent {
        self.to(EventSubject::Tenant(name.clone()))
    }

    /// The tenant to which it happened, or that owns the object.
    pub fn tenant(&self) -> Option<&TenantName> {
        self.object.tenant()
    }

    /// Sets the amount.
    pub fn of(self, amount: EventAmount) -> PostedEvent {
        PostedEvent {
            amount: Some(amount),
            ..self
        }
    }

    /// Sets the actor.
    pub fn by(self, actor: Actor) -> PostedEvent {
        PostedEvent { actor, ..self }
    }

    /// Adds a text. Control characters become question marks: what others wrote stands in such texts, and terminals obey
    /// some of it.
    pub fn saying(self, text: impl fmt::Display) -> PostedEvent {
        let mut text = text.to_string().replace(char::is_control, "?");
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        self.with(EventDetail::Text(text.into()))
    }

    /// Sets the detail.
    pub fn with(self, detail: EventDetail) -> PostedEvent {
        PostedEvent { detail, ..self }
    }

    /// Sets how often it happened.
    pub fn times(self, count: u64) -> PostedEvent {
        PostedEvent { count, ..self }
    }

    /// Adds a repetition: the amounts add up.
    pub(super) fn add(&mut self, later: PostedEvent) {
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
    /// The event's number among all events since the start, from 1 on, without gaps.
    pub seq: u64,
    /// When it happened, in Unix milliseconds. If it happened several times, the last time.
    pub at_millis: u64,
    pub(super) cause: PostedEvent,
}

impl Event {
    /// Which kind.
    pub fn id(&self) -> EventId {
        self.cause.id
    }

    /// The object.
    pub fn object(&self) -> &EventSubject {
        &self.cause.object
    }

    /// What a policy decided or what a tenant lost, if the event is about that.
    pub fn policy(&self) -> Option<&PolicyRecord> {
        match &self.cause.detail {
            EventDetail::Policy(record) => Some(record),
            _ => None,
        }
    }

    /// The memory that the event takes, including its place in the buffer.
    pub(super) fn bytes(&self) -> usize {
        // An `Arc` has two counts in front. A list that grows has twice the places that it needs. The allocator rounds
        // up.
        const BESIDES: usize = 2 * size_of::<usize>() + 2 * size_of::<usize>() + 32;
        size_of::<Event>() + BESIDES + self.cause.object.text_bytes() + self.cause.detail.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_moves_no_cursor_and_has_a_bound() {
        let said = |text: &str| {
            let posted = PostedEvent::new(EventId::PolicyChanged, EventReason::Kept).saying(text);
            match posted.detail {
                EventDetail::Text(text) => text.to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(said("knob \u{1b}[31mé"), "knob ?[31mé");
        assert_eq!(said(&"é".repeat(TEXT_BYTES_MAX)).len(), TEXT_BYTES_MAX);
    }
}
