//! Why something happened between this host and a peer, as the reasons of events.

use sublet_lend::control::{GrantLimit, LeaseEnd};
use sublet_lend::node::{BorrowEnd, LinkLoss, LoanEnd, RecallReason, ReturnReason, ShutCause};
use sublet_tls::peer::PeerRefusal;

use super::page_faults::PageFault;
use crate::observe::events::EventReason;

/// Why a grant is as large as it is.
pub(super) fn reason_of_grant(limit: Option<GrantLimit>) -> EventReason {
    limit.map_or(EventReason::InFull, reason_of_limit)
}

pub(super) fn reason_of_refusal(refusal: &PeerRefusal) -> EventReason {
    match refusal {
        PeerRefusal::NoCertificate => EventReason::NoCertificate,
        PeerRefusal::UnknownAuthority => EventReason::UnknownAuthority,
        PeerRefusal::Expired => EventReason::Expired,
        PeerRefusal::NotValidYet => EventReason::NotValidYet,
        PeerRefusal::WrongPurpose => EventReason::WrongPurpose,
        PeerRefusal::NoNodeName(_) => EventReason::NoNodeName,
        PeerRefusal::OtherCluster { .. } => EventReason::OtherCluster,
        PeerRefusal::OtherNode { .. } => EventReason::OtherNode,
        PeerRefusal::Denied { .. } => EventReason::Denied,
        PeerRefusal::BadCertificate(_) => EventReason::BadCertificate,
        PeerRefusal::OldTls => EventReason::OldTls,
        PeerRefusal::RefusedByPeer(_) => EventReason::RefusedByPeer,
        PeerRefusal::Protocol(_) => EventReason::Protocol,
    }
}

pub(super) fn reason_of_page_fault(fault: PageFault) -> EventReason {
    match fault {
        PageFault::BadHello | PageFault::NotAdmitted | PageFault::BrokenProtocol => {
            EventReason::Protocol
        }
        PageFault::NoHello => EventReason::NoHello,
        PageFault::NoRoom => EventReason::Flood,
        PageFault::ReadRefused => EventReason::RefusedByPeer,
        PageFault::Silent => EventReason::Silent,
    }
}

pub(super) fn reason_of_loss(loss: LinkLoss) -> EventReason {
    match loss {
        LinkLoss::Ended => EventReason::Closed,
        LinkLoss::Idle => EventReason::Idle,
        LinkLoss::Silent => EventReason::Silent,
        LinkLoss::NoHello => EventReason::NoHello,
        LinkLoss::Replaced => EventReason::Replaced,
        LinkLoss::Bye => EventReason::Goodbye,
        LinkLoss::SendsFull => EventReason::Backlog,
    }
}

pub(super) fn reason_of_shut(cause: ShutCause) -> EventReason {
    match cause {
        ShutCause::Cluster => EventReason::OtherCluster,
        ShutCause::Name => EventReason::OtherNode,
        ShutCause::Garbled => EventReason::Garbled,
        ShutCause::Protocol => EventReason::Protocol,
        ShutCause::Grant => EventReason::WrongGrant,
        ShutCause::Flood => EventReason::Flood,
        ShutCause::Distrust => EventReason::Forged,
        ShutCause::SaidBye => EventReason::SaidBye,
    }
}

pub(super) fn reason_of_limit(limit: GrantLimit) -> EventReason {
    match limit {
        GrantLimit::Spare => EventReason::Spare,
        GrantLimit::Max => EventReason::LendMax,
        GrantLimit::MaxEach => EventReason::LendMaxEach,
        GrantLimit::NotNamed => EventReason::LendTo,
        GrantLimit::Wants => EventReason::Wants,
        GrantLimit::Draining => EventReason::Draining,
        GrantLimit::Recalling => EventReason::Recalling,
        GrantLimit::Leases => EventReason::Leases,
        GrantLimit::Busy => EventReason::Busy,
        GrantLimit::Turn => EventReason::Turn,
        GrantLimit::Other => EventReason::Other,
    }
}

pub(super) fn reason_of_recall(reason: RecallReason) -> EventReason {
    match reason {
        RecallReason::Host => EventReason::Host,
        RecallReason::Wanted => EventReason::Wants,
        RecallReason::Drain => EventReason::Draining,
        RecallReason::Operator => EventReason::ByHand,
        RecallReason::Leaving => EventReason::Leaving,
        RecallReason::NoticeOver => EventReason::NoticeOver,
    }
}

pub(super) fn reason_of_loan_end(end: LoanEnd) -> EventReason {
    match end {
        LoanEnd::Returned => EventReason::Returned,
        LoanEnd::Recalled => EventReason::Recalled,
        LoanEnd::Unclaimed => EventReason::Unclaimed,
        LoanEnd::Away => EventReason::Away,
        LoanEnd::OtherIncarnation => EventReason::Restarted,
        LoanEnd::Bye => EventReason::Goodbye,
        LoanEnd::Shut => EventReason::Shut,
    }
}

pub(super) fn reason_of_borrow_end(end: BorrowEnd) -> EventReason {
    match end {
        BorrowEnd::Lender(LeaseEnd::Returned) => EventReason::Returned,
        BorrowEnd::Lender(LeaseEnd::Recalled) => EventReason::Recalled,
        BorrowEnd::Lender(LeaseEnd::Unknown) => EventReason::UnknownLease,
        BorrowEnd::Lender(LeaseEnd::Other) => EventReason::Other,
        BorrowEnd::Away => EventReason::Away,
        BorrowEnd::OtherIncarnation => EventReason::Restarted,
        BorrowEnd::Bye => EventReason::Goodbye,
        BorrowEnd::Shut => EventReason::Shut,
    }
}

pub(super) fn reason_of_return(reason: ReturnReason) -> EventReason {
    match reason {
        ReturnReason::Recalled => EventReason::Recalled,
        ReturnReason::Unused => EventReason::Unused,
        ReturnReason::NoRoom => EventReason::NoRoom,
        ReturnReason::Leaving => EventReason::Leaving,
    }
}
