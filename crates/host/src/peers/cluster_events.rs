//! What happens in this host's cluster, as events.

use super::membership::{ClusterNotice, PlacementSource};
use crate::observe::events::{EventId, EventReason, EventSubject, PostedEvent};

/// The event of a notice.
pub(crate) fn event_of(notice: &ClusterNotice) -> PostedEvent {
    use {EventId as Id, EventReason as Why};
    let host = |name: &sublet_types::NodeName| EventSubject::Peer(name.as_str().into());
    match notice {
        ClusterNotice::Registered => PostedEvent::new(Id::ClusterRegistered, Why::Registered),
        ClusterNotice::Unregistered => PostedEvent::new(Id::ClusterUnregistered, Why::LeaseOver),
        ClusterNotice::Displaced => PostedEvent::new(Id::ClusterDisplaced, Why::NameTaken),
        ClusterNotice::UnreadableMember { name, error } => {
            let wrong = PostedEvent::new(Id::ClusterMemberWrong, Why::NoRecord);
            wrong.to(host(name)).saying(error)
        }
        ClusterNotice::Leads { name, term } => {
            let leads = PostedEvent::new(Id::ClusterLeader, Why::Elected);
            leads.to(host(name)).saying(format_args!("term {}", term.0))
        }
        ClusterNotice::NobodyLeads => PostedEvent::new(Id::ClusterLeaderless, Why::NoLeader),
        ClusterNotice::Placement { policy, source } => {
            let why = match source {
                PlacementSource::Etcd => Why::ClusterSettings,
                PlacementSource::Config => Why::OwnConfig,
            };
            PostedEvent::new(Id::ClusterPlacement, why).saying(policy)
        }
        ClusterNotice::WrongSettings(error) => {
            PostedEvent::new(Id::ClusterSettingsWrong, Why::WrongSettings).saying(error)
        }
        ClusterNotice::EtcdFailed(error) => {
            PostedEvent::new(Id::EtcdFailed, Why::NoStore).saying(error)
        }
        ClusterNotice::EtcdRestored => PostedEvent::new(Id::EtcdRestored, Why::Restored),
    }
}

#[cfg(test)]
mod tests {
    use sublet_lend::ids::Term;

    use super::*;

    /// Each event's reason stands in its row, or the posting fails here.
    #[test]
    fn each_notice_is_an_event_of_the_table() {
        let name: sublet_types::NodeName = "b".parse().expect("a name");
        let text = || "why".to_owned();
        for notice in [
            ClusterNotice::Registered,
            ClusterNotice::Unregistered,
            ClusterNotice::Displaced,
            ClusterNotice::UnreadableMember {
                name: name.clone(),
                error: text(),
            },
            ClusterNotice::Leads {
                name,
                term: Term(7),
            },
            ClusterNotice::NobodyLeads,
            ClusterNotice::Placement {
                policy: "spread",
                source: PlacementSource::Etcd,
            },
            ClusterNotice::Placement {
                policy: "spread",
                source: PlacementSource::Config,
            },
            ClusterNotice::WrongSettings(text()),
            ClusterNotice::EtcdFailed(text()),
            ClusterNotice::EtcdRestored,
        ] {
            let events = crate::observe::events::Events::default();
            events.post(event_of(&notice));
        }
    }
}
