//! What a network wants to be woken for.

use sublet_lend::ids::ConnectionId;

use super::connection::Side;
use crate::virtual_time::VirtualInstant;

/// What a network wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum NetworkAlarm {
    /// Something arrives at this end.
    Arrival(ConnectionId, Side),
    /// What was sent to this end may be unacknowledged for too long.
    Unacknowledged(ConnectionId, Side),
}

/// Alarms that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct NetworkAlarms(Vec<(VirtualInstant, NetworkAlarm)>);

impl NetworkAlarms {
    /// Sets an alarm.
    pub(super) fn set(&mut self, at: VirtualInstant, alarm: NetworkAlarm) {
        self.0.push((at, alarm));
    }

    /// Takes all.
    pub(super) fn take(&mut self) -> Vec<(VirtualInstant, NetworkAlarm)> {
        std::mem::take(&mut self.0)
    }
}
