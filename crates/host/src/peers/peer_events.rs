//! What happens between this host and its peers, as events.

use std::fmt;

use sublet_lend::control::VersionRange;
use sublet_lend::guard::GuardChange;
use sublet_lend::node::LendingChange;
use sublet_types::{BLOCK_BYTES, Bytes, NodeName};

use super::control::{PeerNotice, PeerObserver, RefusedParty};
use super::peer_event_reasons::{
    reason_of_borrow_end, reason_of_grant, reason_of_limit, reason_of_loan_end, reason_of_loss,
    reason_of_page_fault, reason_of_recall, reason_of_refusal, reason_of_return, reason_of_shut,
};
use crate::observe::events::{
    EventAmount, EventId, EventReason, EventSubject, Events, PostedEvent,
};

/// Posts what the control thread notices.
pub(crate) struct PeerEventPoster(pub(crate) Events);

impl PeerObserver for PeerEventPoster {
    fn observe(&mut self, notice: PeerNotice) {
        self.0.post(event_of(notice));
    }
}

/// The event of a notice.
fn event_of(notice: PeerNotice) -> PostedEvent {
    match notice {
        PeerNotice::Changed { name, change } => event_of_change(&change).to(member(&name)),
        PeerNotice::Guard {
            name,
            backing,
            change,
        } => event_of_guard(&backing, change).to(member(&name)),
        PeerNotice::Stranger { name } => {
            PostedEvent::new(EventId::PeerRefused, EventReason::Stranger).to(member(&name))
        }
        PeerNotice::Refused { party, refusal } => {
            let refused = PostedEvent::new(EventId::PeerRefused, reason_of_refusal(&refusal));
            refused.to(party_subject(&party)).saying(refusal)
        }
        PeerNotice::Garbled { party, error } => {
            let refused = PostedEvent::new(EventId::PeerRefused, EventReason::Garbled);
            refused.to(party_subject(&party)).saying(error)
        }
        PeerNotice::PageFault { party, fault } => {
            let refused = PostedEvent::new(EventId::PeerRefused, reason_of_page_fault(fault));
            refused.to(party_subject(&party)).saying(fault)
        }
        PeerNotice::Unreachable { name, error } => {
            let unreachable = PostedEvent::new(EventId::PeerUnreachable, EventReason::NoAnswer);
            unreachable.to(member(&name)).saying(error)
        }
        PeerNotice::Left => PostedEvent::new(EventId::LendParted, EventReason::Leaving),
    }
}

fn member(name: &NodeName) -> EventSubject {
    EventSubject::Peer(name.as_str().into())
}

fn party_subject(party: &RefusedParty) -> EventSubject {
    match party {
        RefusedParty::Member(name) => member(name),
        RefusedParty::Address(address) => EventSubject::Peer(address.to_string().into()),
    }
}

/// The event of a change, to nobody yet.
fn event_of_change(change: &LendingChange) -> PostedEvent {
    let (id, why) = id_and_reason(change);
    let event = PostedEvent::new(id, why);
    let event = match detail_of(change) {
        Some(detail) => event.saying(detail),
        None => event,
    };
    match blocks_of(change) {
        Some(blocks) => {
            let bytes = Bytes(u64::from(blocks) * BLOCK_BYTES);
            event.of(EventAmount::Bytes(bytes))
        }
        None => event,
    }
}

fn id_and_reason(change: &LendingChange) -> (EventId, EventReason) {
    use EventId as Id;
    match *change {
        LendingChange::Connected { .. } => (Id::PeerConnected, EventReason::Agreed),
        LendingChange::Lost { reason } => (Id::PeerLost, reason_of_loss(reason)),
        LendingChange::Incompatible { .. } => (Id::PeerIncompatible, EventReason::NoCommonVersion),
        LendingChange::Shut { cause } => (Id::PeerShut, reason_of_shut(cause)),
        LendingChange::Denied => (Id::PeerDenied, EventReason::Denied),
        LendingChange::Leaving => (Id::PeerLeaving, EventReason::Leaving),
        LendingChange::Granted { limit, .. } => (Id::LendGranted, reason_of_grant(limit)),
        LendingChange::Refused { limit } => (Id::LendRefused, reason_of_limit(limit)),
        LendingChange::RecallAsked { reason, .. } => (Id::LendNoticed, reason_of_recall(reason)),
        LendingChange::Recalled { reason, .. } => (Id::LendRecalled, reason_of_recall(reason)),
        LendingChange::Unclaimed { .. } => (Id::LendRecalled, EventReason::Unclaimed),
        LendingChange::LoanEnded { reason, .. } => (Id::LendEnded, reason_of_loan_end(reason)),
        LendingChange::Borrowed { limit, .. } => (Id::BorrowGranted, reason_of_grant(limit)),
        LendingChange::BorrowRefused { limit } => (Id::BorrowRefused, reason_of_limit(limit)),
        LendingChange::ReturnAsked { .. } => (Id::BorrowNoticed, EventReason::Recalled),
        LendingChange::TakenByLender { .. } => (Id::BorrowRecalled, EventReason::Recalled),
        LendingChange::Returned { reason, .. } => (Id::BorrowReturned, reason_of_return(reason)),
        LendingChange::BorrowEnded { reason, .. } => {
            (Id::BorrowEnded, reason_of_borrow_end(reason))
        }
    }
}

/// How many blocks a change is about, if it is about blocks.
fn blocks_of(change: &LendingChange) -> Option<u32> {
    match *change {
        LendingChange::Granted { blocks, .. }
        | LendingChange::RecallAsked { blocks, .. }
        | LendingChange::Recalled { blocks, .. }
        | LendingChange::Unclaimed { blocks, .. }
        | LendingChange::LoanEnded { blocks, .. }
        | LendingChange::Borrowed { blocks, .. }
        | LendingChange::ReturnAsked { blocks }
        | LendingChange::TakenByLender { blocks, .. }
        | LendingChange::Returned { blocks, .. } => Some(blocks),
        _ => None,
    }
}

/// What a change says beside its reason and its amount.
fn detail_of(change: &LendingChange) -> Option<String> {
    match *change {
        LendingChange::Connected { version } => Some(format!("version {}", version.0)),
        LendingChange::Incompatible { ours, theirs } => Some(format!(
            "this host speaks {}, and the peer speaks {}",
            ShownVersions(ours),
            ShownVersions(theirs)
        )),
        LendingChange::Granted { lease, .. }
        | LendingChange::Recalled { lease, .. }
        | LendingChange::Unclaimed { lease, .. }
        | LendingChange::LoanEnded { lease, .. }
        | LendingChange::Borrowed { lease, .. }
        | LendingChange::TakenByLender { lease, .. }
        | LendingChange::Returned { lease, .. }
        | LendingChange::BorrowEnded { lease, .. } => Some(format!("lease {lease}")),
        _ => None,
    }
}

fn event_of_guard(backing: &str, change: GuardChange) -> PostedEvent {
    let (id, why, far, miss) = match change {
        GuardChange::Shut { far, backing } => {
            (EventId::GuardShut, EventReason::Slower, far, backing)
        }
        GuardChange::Opened { far, backing } => {
            (EventId::GuardOpened, EventReason::Quicker, far, backing)
        }
    };
    PostedEvent::new(id, why).saying(format_args!(
        "a page takes {} µs there, and {} µs from {backing}",
        far.as_micros(),
        miss.as_micros()
    ))
}

/// Versions of the protocol, in words.
pub(super) struct ShownVersions(pub(super) VersionRange);

impl fmt::Display for ShownVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.lowest().0, self.0.highest().0) {
            (lowest, highest) if lowest == highest => write!(f, "version {lowest}"),
            (lowest, highest) => write!(f, "versions {lowest} to {highest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::Ipv6Addr;
    use std::time::Duration;

    use sublet_client::messages::{self, EventObject};
    use sublet_lend::control::{ControlError, GrantLimit, LeaseEnd, Version};
    use sublet_lend::ids::LeaseId;
    use sublet_lend::node::{BorrowEnd, LinkLoss, LoanEnd, RecallReason, ReturnReason, ShutCause};
    use sublet_tls::peer::{NodeIdentity, PeerRefusal};

    use super::*;
    use crate::peers::page_faults::PageFault;

    fn name() -> NodeName {
        "b".parse().expect("a name")
    }

    /// The event as programs get it.
    fn told(notice: PeerNotice) -> messages::Event {
        let events = Events::default();
        PeerEventPoster(events.clone()).observe(notice);
        let excerpt = events.after(0, 1);
        messages::Event::from(&*excerpt.events[0])
    }

    fn told_change(change: LendingChange) -> messages::Event {
        told(PeerNotice::Changed {
            name: name(),
            change,
        })
    }

    #[test]
    fn each_change_is_told_with_its_peer_its_reason_and_bytes() {
        let (lease, blocks) = (LeaseId(7), 3);
        let limit = None;
        let one = Version(1);
        let two = VersionRange::new(Version(2), Version(3)).expect("in order");
        let ours = VersionRange::new(one, one).expect("in order");
        let (loss, cause) = (LinkLoss::Bye, ShutCause::Distrust);
        let busy = GrantLimit::Busy;
        let cases = [
            (
                LendingChange::Connected { version: one },
                "peer.connected agreed",
            ),
            (LendingChange::Lost { reason: loss }, "peer.lost goodbye"),
            (
                LendingChange::Incompatible { ours, theirs: two },
                "peer.incompatible no-common-version",
            ),
            (LendingChange::Shut { cause }, "peer.shut forged"),
            (LendingChange::Denied, "peer.denied denied"),
            (LendingChange::Leaving, "peer.leaving leaving"),
            (
                LendingChange::Granted {
                    lease,
                    blocks,
                    limit,
                },
                "lend.granted in-full 6291456 bytes",
            ),
            (
                LendingChange::Granted {
                    lease,
                    blocks,
                    limit: Some(GrantLimit::MaxEach),
                },
                "lend.granted lend-max-each 6291456 bytes",
            ),
            (LendingChange::Refused { limit: busy }, "lend.refused busy"),
            (
                LendingChange::RecallAsked {
                    blocks,
                    reason: RecallReason::Drain,
                },
                "lend.noticed draining 6291456 bytes",
            ),
            (
                LendingChange::Recalled {
                    lease,
                    blocks,
                    reason: RecallReason::Operator,
                },
                "lend.recalled by-hand 6291456 bytes",
            ),
            (
                LendingChange::Unclaimed { lease, blocks },
                "lend.recalled unclaimed 6291456 bytes",
            ),
            (
                LendingChange::LoanEnded {
                    lease,
                    blocks,
                    reason: LoanEnd::OtherIncarnation,
                },
                "lend.ended restarted 6291456 bytes",
            ),
            (
                LendingChange::Borrowed {
                    lease,
                    blocks,
                    limit: Some(GrantLimit::Spare),
                },
                "borrow.granted spare 6291456 bytes",
            ),
            (
                LendingChange::BorrowRefused {
                    limit: GrantLimit::Other,
                },
                "borrow.refused other",
            ),
            (
                LendingChange::ReturnAsked { blocks },
                "borrow.noticed recalled 6291456 bytes",
            ),
            (
                LendingChange::TakenByLender { lease, blocks },
                "borrow.recalled recalled 6291456 bytes",
            ),
            (
                LendingChange::Returned {
                    lease,
                    blocks,
                    reason: ReturnReason::Unused,
                },
                "borrow.returned unused 6291456 bytes",
            ),
            (
                LendingChange::BorrowEnded {
                    lease,
                    reason: BorrowEnd::Lender(LeaseEnd::Unknown),
                },
                "borrow.ended unknown-lease",
            ),
        ];
        for (change, want) in cases {
            let event = told_change(change);
            let (id, reason) = (&event.id, &event.reason);
            let amount = event.amount.zip(event.unit.as_ref());
            let amount = amount.map_or(String::new(), |(n, unit)| format!(" {n} {unit}"));
            assert_eq!(format!("{id} {reason}{amount}"), want);
            let object = EventObject::Peer {
                name: "b".to_owned(),
            };
            assert_eq!(event.object, Some(object));
        }
        let theirs = told_change(LendingChange::Incompatible { ours, theirs: two });
        let versions = "this host speaks version 1, and the peer speaks versions 2 to 3";
        assert!(theirs.said.ends_with(versions), "{}", theirs.said);
    }

    /// All values of an enumeration. A new one that is not named here does not compile.
    macro_rules! all {
        ($kind:ident: $($value:ident)+) => {{
            let _each_is_named = |value: $kind| match value {
                $($kind::$value => {})+
            };
            [$($kind::$value),+]
        }};
    }

    /// A post panics, in tests, if its event has no such reason.
    #[test]
    fn each_reason_is_one_of_its_event() {
        let (lease, blocks) = (LeaseId(7), 3);
        let mut changes = Vec::new();
        for limit in all!(GrantLimit: Spare Max MaxEach NotNamed Wants Draining Recalling Leases Busy Turn Other)
        {
            let (refused, some) = (limit, Some(limit));
            changes.extend([
                LendingChange::Granted {
                    lease,
                    blocks,
                    limit: some,
                },
                LendingChange::Borrowed {
                    lease,
                    blocks,
                    limit: some,
                },
                LendingChange::Refused { limit: refused },
                LendingChange::BorrowRefused { limit: refused },
            ]);
        }
        let losses = all!(LinkLoss: Ended Silent NoHello Replaced Bye SendsFull Idle);
        changes.extend(losses.map(|reason| LendingChange::Lost { reason }));
        let causes = all!(ShutCause: Cluster Name Garbled Protocol Grant Flood Distrust SaidBye);
        changes.extend(causes.map(|cause| LendingChange::Shut { cause }));
        let recalls = all!(RecallReason: Host Wanted Drain Operator Leaving NoticeOver);
        changes.extend(recalls.map(|reason| LendingChange::Recalled {
            lease,
            blocks,
            reason,
        }));
        // A notice that is over was given before.
        let noticed = recalls
            .into_iter()
            .filter(|why| *why != RecallReason::NoticeOver);
        changes.extend(noticed.map(|reason| LendingChange::RecallAsked { blocks, reason }));
        let ends = all!(LoanEnd: Returned Recalled Unclaimed Away OtherIncarnation Bye Shut);
        changes.extend(ends.map(|reason| LendingChange::LoanEnded {
            lease,
            blocks,
            reason,
        }));
        let by_lender = all!(LeaseEnd: Returned Recalled Unknown Other).map(BorrowEnd::Lender);
        let others = [
            BorrowEnd::Away,
            BorrowEnd::OtherIncarnation,
            BorrowEnd::Bye,
            BorrowEnd::Shut,
        ];
        let ends = by_lender.into_iter().chain(others);
        changes.extend(ends.map(|reason| LendingChange::BorrowEnded { lease, reason }));
        let returns = all!(ReturnReason: Recalled Unused NoRoom Leaving);
        changes.extend(returns.map(|reason| LendingChange::Returned {
            lease,
            blocks,
            reason,
        }));
        for change in changes {
            told_change(change);
        }
        let party = RefusedParty::Member(name());
        for fault in
            all!(PageFault: BadHello NotAdmitted NoHello NoRoom BrokenProtocol ReadRefused Silent)
        {
            told(PeerNotice::PageFault {
                party: party.clone(),
                fault,
            });
        }
    }

    #[test]
    fn whoever_has_proved_no_name_is_told_by_its_address() {
        let party = RefusedParty::Address(Ipv6Addr::LOCALHOST.into());
        let refusal = PeerRefusal::OldTls;
        let refused = told(PeerNotice::Refused {
            party: party.clone(),
            refusal,
        });
        assert_eq!(
            (&*refused.id, &*refused.reason),
            ("peer.refused", "old-tls")
        );
        assert!(
            refused.said.contains("does not speak TLS 1.3"),
            "{}",
            refused.said
        );
        let object = EventObject::Peer {
            name: "::1".to_owned(),
        };
        assert_eq!(refused.object, Some(object));
        let error = ControlError::Long;
        let garbled = told(PeerNotice::Garbled { party, error });
        assert_eq!(
            (&*garbled.id, &*garbled.reason),
            ("peer.refused", "garbled")
        );
    }

    #[test]
    fn each_other_notice_is_told() {
        let guard = |change| PeerNotice::Guard {
            name: name(),
            backing: "db".into(),
            change,
        };
        let (far, backing) = (Duration::from_micros(900), Duration::from_millis(1));
        let shut = told(guard(GuardChange::Shut { far, backing }));
        assert_eq!((&*shut.id, &*shut.reason), ("guard.shut", "slower"));
        let times = "a page takes 900 µs there, and 1000 µs from db";
        assert!(shut.said.ends_with(times), "{}", shut.said);
        let opened = told(guard(GuardChange::Opened { far, backing }));
        assert_eq!((&*opened.id, &*opened.reason), ("guard.opened", "quicker"));
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        let unreachable = told(PeerNotice::Unreachable {
            name: name(),
            error,
        });
        assert_eq!(unreachable.id, "peer.unreachable");
        let stranger = told(PeerNotice::Stranger { name: name() });
        assert_eq!(
            (&*stranger.id, &*stranger.reason),
            ("peer.refused", "stranger")
        );
        assert_eq!(told(PeerNotice::Left).id, "lend.parted");
    }

    /// A refusal is counted under its label, and told under its reason. Both are one word.
    #[test]
    fn a_refusal_has_one_name_in_events_and_in_figures() {
        let found = NodeIdentity {
            cluster: "other".parse().expect("a name"),
            node: name(),
        };
        for refusal in [
            PeerRefusal::NoCertificate,
            PeerRefusal::UnknownAuthority,
            PeerRefusal::Expired,
            PeerRefusal::NotValidYet,
            PeerRefusal::WrongPurpose,
            PeerRefusal::OtherCluster { found },
            PeerRefusal::OldTls,
        ] {
            assert_eq!(reason_of_refusal(&refusal).name(), refusal.label());
        }
    }
}
