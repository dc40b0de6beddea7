//! What the control plane tells the rest of the daemon.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use sublet_lend::control::ControlError;
use sublet_lend::guard::GuardChange;
use sublet_lend::ids::SessionId;
use sublet_lend::node::LendingChange;
use sublet_tls::peer::PeerRefusal;
use sublet_types::NodeName;

use super::refusals::RefusedParty;
use crate::peers::page_faults::PageFault;

/// Something to be logged.
#[derive(Debug)]
pub enum PeerNotice {
    /// Something changed between this node and a member.
    Changed {
        /// The member.
        name: NodeName,
        /// What changed, and why.
        change: LendingChange,
    },
    /// A lender became too slow to be asked in place of a backing, or quick enough again.
    Guard {
        /// The lender.
        name: NodeName,
        /// The backing: a disk's name, or `rings`.
        backing: Arc<str>,
        /// What changed.
        change: GuardChange,
    },
    /// A node that is no member came with a certificate of the cluster. It comes once a name.
    Stranger {
        /// Its name.
        name: NodeName,
    },
    /// A connection was refused. It comes once a party and cause.
    Refused {
        /// Who was refused.
        party: RefusedParty,
        /// Why.
        refusal: PeerRefusal,
    },
    /// A peer sent what is no line of this protocol, and is shut out for a while. It comes once a party.
    Garbled {
        /// Who sent it.
        party: RefusedParty,
        /// What is wrong with the line.
        error: ControlError,
    },
    /// Somebody did something wrong on a connection that carries pages. It comes once a party and fault.
    PageFault {
        /// Who did it.
        party: RefusedParty,
        /// What was wrong.
        fault: PageFault,
    },
    /// A member was not reached. It comes once until the member is connected.
    Unreachable {
        /// The member.
        name: NodeName,
        /// What the resolver or the kernel said.
        error: io::Error,
    },
    /// This node has parted from all, as it was told.
    Left,
}

/// Who wants to know what happens. The control thread calls it, so it must not wait for anything.
pub trait PeerObserver: Send {
    /// Takes a notice.
    fn observe(&mut self, notice: PeerNotice);
}

impl<F: FnMut(PeerNotice) + Send> PeerObserver for F {
    fn observe(&mut self, notice: PeerNotice) {
        self(notice);
    }
}

/// Who serves connections that carry pages. They come to the same port as control connections.
pub trait ServePageConnections: Send {
    /// Takes a connection that does not block. Nothing was read of it. The call must not wait for anything.
    fn take(&mut self, stream: TcpStream, remote: SocketAddr);

    /// Ends the connections of a session that is over.
    fn end_session(&mut self, session: SessionId);
}
