//! Faults of who leads and of etcd.

use sublet_etcd::keys::ClusterKeys;

use super::Nemesis;
use super::fault_kind::FaultKind;
use crate::cluster::environment::ClusterEvent;
use crate::cluster::etcd_service::{EtcdCondition, EtcdService};
use crate::cluster::ids::NodeNumber;
use crate::cluster::network::{CrashKind, LinkFault};
use crate::cluster::trace::TraceEvent;
use crate::cluster::world::ClusterWorld;

/// The shortest and the longest time for which a leader is away or cut off, in milliseconds. The longest exceed the time
/// after which a silent leader is given up.
const LEADER_MILLIS: (u64, u64) = (1_000, 28_000);

/// The same for a leader that stays away while another one leads.
const SUCCEEDED_MILLIS: (u64, u64) = (12_000, 28_000);

/// When a successor leads, so that wishes that change then are its to serve.
const SUCCESSOR_MILLIS: (u64, u64) = (5_000, 10_000);

/// For how long a leader is stopped. Its term ends within 7 s.
const STOP_MILLIS: (u64, u64) = (2_000, 14_000);

/// For how long all of etcd is away, or has no quorum.
const ETCD_MILLIS: (u64, u64) = (500, 28_000);

/// How long an election of etcd takes.
const ELECTION_MILLIS: (u64, u64) = (1_000, 6_000);

/// How long a leader does not reach etcd while another is elected.
const DUEL_MILLIS: (u64, u64) = (4_000, 10_000);

impl ClusterWorld {
    /// Lets something be done to etcd, if the run has one.
    pub(super) fn etcd_service(&mut self, act: impl FnOnce(&mut EtcdService)) {
        if let Some(etcd) = &mut self.env.etcd {
            act(etcd);
        }
        self.env.set_alarms();
    }
}

impl Nemesis {
    /// Does a fault of who leads, or of etcd.
    pub(super) fn strike_leader(&mut self, world: &mut ClusterWorld, kind: FaultKind) {
        match kind {
            FaultKind::EtcdAway => self.break_etcd(world, EtcdCondition::Away, ETCD_MILLIS),
            FaultKind::EtcdQuorum => self.break_etcd(world, EtcdCondition::NoQuorum, ETCD_MILLIS),
            FaultKind::EtcdElection => {
                self.break_etcd(world, EtcdCondition::Electing, ELECTION_MILLIS);
            }
            FaultKind::EtcdCut => {
                let node = self.node(world);
                self.cut_off_etcd(world, node, ETCD_MILLIS);
            }
            _ => {
                let Some(leader) = world.leader_to_strike() else {
                    return;
                };
                match kind {
                    FaultKind::LeaderCrash => self.crash_leader(world, leader),
                    FaultKind::LeaderStop => self.stop_leader(world, leader),
                    FaultKind::LeaderCut => self.cut_leader(world, leader),
                    _ => self.duel(world, leader),
                }
            }
        }
    }

    fn break_etcd(
        &mut self,
        world: &mut ClusterWorld,
        condition: EtcdCondition,
        (least, most): (u64, u64),
    ) {
        let what = match condition {
            EtcdCondition::Away => "etcd is away",
            EtcdCondition::NoQuorum => "etcd has no quorum",
            EtcdCondition::Serving | EtcdCondition::Electing => "etcd elects a leader of its own",
        };
        let (now, lasts) = (world.env.now, self.millis(least, most));
        world
            .env
            .note(NodeNumber::default(), TraceEvent::Fault(what, None));
        let compacts = self.luck.happens(0.2);
        world.etcd_service(|etcd| {
            if compacts {
                etcd.compact();
            }
            etcd.break_for(now, condition, lasts);
        });
    }

    fn cut_off_etcd(
        &mut self,
        world: &mut ClusterWorld,
        node: NodeNumber,
        (least, most): (u64, u64),
    ) {
        let lasts = self.millis(least, most);
        world
            .env
            .note(node, TraceEvent::Fault("does not reach etcd", None));
        world.etcd_service(|etcd| etcd.cut(node));
        world.env.after(lasts, ClusterEvent::EtcdReached(node));
    }

    fn crash_leader(&mut self, world: &mut ClusterWorld, leader: NodeNumber) {
        let (least, most) = match self.luck.happens(0.5) {
            true => LEADER_MILLIS,
            false => SUCCEEDED_MILLIS,
        };
        let lasts = self.millis(least, most);
        let kind = match self.luck.happens(0.5) {
            true => CrashKind::Process,
            false => CrashKind::Host,
        };
        world.crash(leader, kind);
        world.env.after(lasts, ClusterEvent::Restart(leader));
        let (least, most) = SUCCESSOR_MILLIS;
        let leads_at = self.millis(least, most);
        world.env.after(leads_at, ClusterEvent::WishesChange);
    }

    fn stop_leader(&mut self, world: &mut ClusterWorld, leader: NodeNumber) {
        let (least, most) = STOP_MILLIS;
        let (lasts, heals_at) = (self.millis(least, most), world.heals_at());
        if let Some((node, env)) = world.running(leader) {
            env.note(leader, TraceEvent::Fault("leads, and stops", None));
            node.stop_until(heals_at.min(env.now + lasts));
        }
    }

    fn cut_leader(&mut self, world: &mut ClusterWorld, leader: NodeNumber) {
        let (least, most) = LEADER_MILLIS;
        let lasts = self.millis(least, most);
        let (hears, speaks) = match self.luck.below(4) {
            0 => (true, false),
            1 => (false, true),
            _ => (false, false),
        };
        let env = &mut world.env;
        env.note(leader, TraceEvent::Fault("leads, and is cut off", None));
        let others: Vec<NodeNumber> = world.numbers().filter(|other| *other != leader).collect();
        let env = &mut world.env;
        for other in others {
            if !speaks {
                env.network.links().disturb(leader, other, LinkFault::Cut);
            }
            if !hears {
                env.network.links().disturb(other, leader, LinkFault::Cut);
            }
            env.after(lasts, ClusterEvent::LinkHeals(leader, other));
        }
    }

    /// The lease of who leads ends in etcd, and it does not hear of that. Another one is elected at once.
    fn duel(&mut self, world: &mut ClusterWorld, leader: NodeNumber) {
        self.cut_off_etcd(world, leader, DUEL_MILLIS);
        let now = world.env.now;
        let keys = ClusterKeys::new(&Default::default());
        world.etcd_service(|etcd| etcd.depose(now, &keys));
    }
}
