//! Which connections of a thread have something to do.

use std::collections::VecDeque;
use std::net::IpAddr;

use sublet_lend::wire::ConnectionClass;

use super::served_connection::ServedConnection;

/// A connection, and whether it is in a queue.
pub(super) struct QueuedConnection {
    pub(super) connection: ServedConnection,
    /// Where it came from.
    pub(super) address: IpAddr,
    pub(super) is_due: bool,
}

/// Connections that have something to do, in the order in which they were found. Each is at most once in one of the
/// queues.
#[derive(Default)]
pub(super) struct DueConnections {
    /// Those whose hello has not come. A hello moves no page, so the budget keeps none waiting.
    pub(super) hellos: VecDeque<usize>,
    pub(super) reads: VecDeque<usize>,
    pub(super) writes: VecDeque<usize>,
}

impl DueConnections {
    /// Returns whether a connection waits that moves pages.
    pub(super) fn have_pages(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// Queues a connection, unless it is queued.
    pub(super) fn mark(&mut self, connections: &mut [Option<QueuedConnection>], at: usize) {
        let Some(queued) = connections.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        if std::mem::replace(&mut queued.is_due, true) {
            return;
        }
        let queue = match queued.connection.class() {
            None => &mut self.hellos,
            Some(ConnectionClass::Read) => &mut self.reads,
            Some(ConnectionClass::Write) => &mut self.writes,
        };
        queue.push_back(at);
    }
}
