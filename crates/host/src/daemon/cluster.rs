//! What an owner sees and does of the host's place in its cluster.

use std::time::Duration;

use sublet_client::messages::{
    ChangeLifetime, ClusterPlan, ClusterStatus, JoinCluster, LeaveCluster,
};

use super::Daemon;
use super::lending::{DRAIN_NOTICE_MAX, figures_time};
use super::request_error::RequestError;
use crate::config::PresenceChange;
use crate::live_changes_file::ChangeGuard;
use crate::observe::events::{Actor, EventId, PostedEvent};
use crate::peers::cluster_figures::{ArenaAmounts, cluster_plan, cluster_status};

impl Daemon {
    /// How the host stands in its cluster, and how the cluster stands.
    ///
    /// # Errors
    ///
    /// The host has no peers.
    pub fn cluster_status(&self) -> Result<ClusterStatus, RequestError> {
        let lending = self.peers()?;
        let store = self.backend.store.figures();
        let arena = ArenaAmounts {
            total: store.limit,
            free: store.vacant(),
        };
        let time = figures_time(self);
        Ok(cluster_status(lending, self.leave_lasts(), arena, time))
    }

    /// What the placement policy would advise now.
    ///
    /// # Errors
    ///
    /// The host has no peers.
    pub fn cluster_plan(&self) -> Result<ClusterPlan, RequestError> {
        Ok(cluster_plan(self.peers()?, figures_time(self)))
    }

    /// How long a leave holds that is in force now.
    fn leave_lasts(&self) -> ChangeLifetime {
        let kept = self.live.current().presence().map(PresenceChange::is_join);
        match kept.unwrap_or(self.written.peers.join) {
            true => ChangeLifetime::UntilRestart,
            false => ChangeLifetime::Always,
        }
    }

    /// Leaves the cluster: the host gives back what it has of others and takes back what others have of it, and then
    /// parts from all.
    ///
    /// # Errors
    ///
    /// The host has no peers, the notice is too long, or the change cannot be written down.
    pub fn leave_cluster(
        &self,
        leave: &LeaveCluster,
        by: Actor,
    ) -> Result<ClusterStatus, RequestError> {
        let within = Duration::from_millis(leave.within_millis);
        if within > DRAIN_NOTICE_MAX {
            return Err(RequestError::DrainNotice);
        }
        let lending = self.peers()?;
        let turn = self.live.lock()?;
        self.keep_presence(&turn, PresenceChange::Leave, leave.lasts)?;
        let left = PostedEvent::new(EventId::ClusterLeft, leave.lasts.into());
        self.events.post(left.by(by));
        lending.leave(within);
        drop(turn);
        self.cluster_status()
    }

    /// Takes part in the cluster again.
    ///
    /// # Errors
    ///
    /// The host has no peers, a file for etcd is wrong, or the change cannot be written down.
    pub fn join_cluster(
        &self,
        join: &JoinCluster,
        by: Actor,
    ) -> Result<ClusterStatus, RequestError> {
        let lending = self.peers()?;
        let turn = self.live.lock()?;
        self.keep_presence(&turn, PresenceChange::Join, join.lasts)?;
        lending.join(self.kept_draining())?;
        let joined = PostedEvent::new(EventId::ClusterJoined, join.lasts.into());
        self.events.post(joined.by(by));
        drop(turn);
        self.cluster_status()
    }

    fn keep_presence(
        &self,
        turn: &ChangeGuard<'_>,
        change: PresenceChange,
        lasts: ChangeLifetime,
    ) -> Result<(), RequestError> {
        if lasts == ChangeLifetime::Always {
            let differs = change.is_join() != self.written.peers.join;
            turn.persist(|live| live.with_presence(differs.then_some(change)))?;
        }
        Ok(())
    }
}
