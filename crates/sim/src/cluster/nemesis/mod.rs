//! Faults: what is done to nodes, hosts and links of a cluster, and the healing of it all.
//!
//! Each run draws which kinds of faults it has and how often, so that some runs are full of one kind.

mod fault_kind;
mod leading;

use std::time::Duration;

use sublet_lend::node::LendingInput;

use fault_kind::FaultKind;

use super::environment::ClusterEvent;
use super::ids::NodeNumber;
use super::network::{CrashKind, LinkFault};
use super::plan::FAR_BLOCKS_MAX;
use super::trace::TraceEvent;
use super::world::{CLOCK_PERCENTS, ClusterWorld};
use crate::machine::tier_store::StoreTierError;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// The part of a run that draws the faults.
const NEMESIS_PART: u64 = 1 << 32;

/// The shortest and the longest mean time between two faults, in milliseconds.
const PAUSE_MILLIS: (u64, u64) = (80, 800);

/// Who does the faults of a run.
pub(super) struct Nemesis {
    luck: SimRng,
    /// How often each kind is done, beside the others.
    weights: [u64; FaultKind::ALL.len()],
    pause: VirtualDuration,
    is_over: bool,
}

impl Nemesis {
    /// The faults of a seed. They begin after a moment.
    pub(super) fn new(world: &mut ClusterWorld, seed: u64) -> Nemesis {
        let mut luck = SimRng::of_part(seed, NEMESIS_PART);
        let mut weights = [0; FaultKind::ALL.len()];
        for (weight, kind) in weights.iter_mut().zip(FaultKind::ALL) {
            let drawn = match luck.below(3) {
                0 => 0,
                _ => 1 + luck.below(8),
            };
            let is_there = kind.is_within(world.fault_scope(), world.leading.leadership);
            *weight = if is_there { drawn } else { 0 };
        }
        let (least, most) = PAUSE_MILLIS;
        let mut nemesis = Nemesis {
            pause: VirtualDuration::micros(1000 * (least + luck.below(most - least))),
            luck,
            weights,
            is_over: false,
        };
        nemesis.arrange(world);
        nemesis
    }

    fn arrange(&mut self, world: &mut ClusterWorld) {
        let wait = (self.pause.0 as f64 * self.luck.exponential()) as u64;
        world.env.after(VirtualDuration(wait), ClusterEvent::Fault);
    }

    /// Does what an event says about faults.
    ///
    /// # Errors
    ///
    /// There is no memory for a node that starts again.
    pub(super) fn follow(
        &mut self,
        world: &mut ClusterWorld,
        event: ClusterEvent,
    ) -> Result<(), StoreTierError> {
        match event {
            ClusterEvent::Fault if !self.is_over => {
                self.strike(world);
                self.arrange(world);
            }
            ClusterEvent::Restart(node) => world.begin_run(node)?,
            ClusterEvent::LinkHeals(one, other) => {
                world.env.network.links().heal(one, other);
                world.env.network.links().heal(other, one);
                world
                    .env
                    .note(one, TraceEvent::Fault("link heals with", Some(other)));
            }
            ClusterEvent::EtcdReached(node) => {
                let now = world.env.now;
                world.etcd_service(|etcd| etcd.reconnect(now, node));
            }
            ClusterEvent::Admits(node) => world.env.network.links().admit(node),
            ClusterEvent::Honest(run) => {
                if let Some((node, _)) = world.running(run.node) {
                    node.set_lies(None);
                }
            }
            ClusterEvent::WishesChange if !self.is_over => {
                for _ in 0..world.numbers().count() {
                    self.set_wish(world);
                }
            }
            ClusterEvent::Heal => self.heal(world)?,
            _ => {}
        }
        Ok(())
    }

    /// Heals everything.
    fn heal(&mut self, world: &mut ClusterWorld) -> Result<(), StoreTierError> {
        self.is_over = true;
        world.env.network.links().heal_all();
        let now = world.env.now;
        world.etcd_service(|etcd| etcd.heal(now));
        for number in world.numbers() {
            world.begin_run(number)?;
            let own = world.own_max(number);
            if let Some((node, env)) = world.running(number) {
                env.note(number, TraceEvent::Fault("everything heals", None));
                node.set_lies(None);
                node.need_over(env, own);
                node.tell(env, LendingInput::Resume);
            }
        }
        Ok(())
    }

    fn strike(&mut self, world: &mut ClusterWorld) {
        let sum: u64 = self.weights.iter().sum();
        if sum == 0 {
            return;
        }
        let mut left = self.luck.below(sum);
        let mut chosen = FaultKind::Break;
        for (kind, weight) in FaultKind::ALL.into_iter().zip(self.weights) {
            if left < weight {
                chosen = kind;
                break;
            }
            left -= weight;
        }
        world.env.tally.faults += 1;
        match chosen {
            FaultKind::Cut => self.cut(world),
            FaultKind::Break => self.break_one(world),
            FaultKind::Stall => self.stall(world),
            FaultKind::Slow => self.slow(world),
            FaultKind::Refuse => self.refuse(world),
            FaultKind::Crash => self.crash(world),
            FaultKind::Stop => self.stop(world),
            FaultKind::Clock => self.set_clock(world),
            FaultKind::Need => self.need(world),
            FaultKind::Wish => self.set_wish(world),
            FaultKind::Recall => self.recall(world),
            FaultKind::Drain => self.drain(world),
            FaultKind::Lie => self.lie(world),
            of_leader => self.strike_leader(world, of_leader),
        }
    }

    /// A time from one to another, in milliseconds. Short ones come as often as long ones, by their logarithm.
    fn millis(&mut self, least: u64, most: u64) -> VirtualDuration {
        let ratio = most as f64 / least as f64;
        let millis = least as f64 * libm::pow(ratio, self.luck.share());
        VirtualDuration((millis * 1e6) as u64)
    }

    fn node(&mut self, world: &ClusterWorld) -> NodeNumber {
        let nodes = world.numbers().count() as u64;
        NodeNumber(self.luck.below(nodes) as u16)
    }

    fn pair(&mut self, world: &ClusterWorld) -> (NodeNumber, NodeNumber) {
        let one = self.node(world);
        let nodes = world.numbers().count() as u64;
        let other = (u64::from(one.0) + 1 + self.luck.below(nodes - 1)) % nodes;
        (one, NodeNumber(other as u16))
    }

    fn cut(&mut self, world: &mut ClusterWorld) {
        let (one, other) = self.pair(world);
        let lasts = self.millis(100, 15_000);
        let env = &mut world.env;
        env.note(one, TraceEvent::Fault("reaches no more", Some(other)));
        env.network.links().disturb(one, other, LinkFault::Cut);
        if self.luck.happens(0.6) {
            env.note(other, TraceEvent::Fault("reaches no more", Some(one)));
            env.network.links().disturb(other, one, LinkFault::Cut);
        }
        env.after(lasts, ClusterEvent::LinkHeals(one, other));
    }

    fn break_one(&mut self, world: &mut ClusterWorld) {
        let env = &mut world.env;
        let count = env.network.connections().count() as u64;
        if count == 0 {
            return;
        }
        let nth = self.luck.below(count) as usize;
        let Some((id, [one, other], _)) = env.network.connections().nth(nth) else {
            return;
        };
        let what = TraceEvent::Fault("loses a connection with", Some(other.node));
        env.note(one.node, what);
        env.network.break_amid(env.now, id);
        env.set_alarms();
    }

    fn stall(&mut self, world: &mut ClusterWorld) {
        let (one, other) = self.pair(world);
        let until = world.env.now + self.millis(1, 3_000);
        let env = &mut world.env;
        env.note(one, TraceEvent::Fault("stalls on the way to", Some(other)));
        env.network
            .links()
            .disturb(one, other, LinkFault::Stalled(until));
    }

    fn slow(&mut self, world: &mut ClusterWorld) {
        let (one, other) = self.pair(world);
        let (times, lasts) = (2 + self.luck.below(200) as u32, self.millis(100, 5_000));
        let env = &mut world.env;
        env.note(one, TraceEvent::Fault("is slow to", Some(other)));
        env.network
            .links()
            .disturb(one, other, LinkFault::Slow(times));
        env.after(lasts, ClusterEvent::LinkHeals(one, other));
    }

    fn refuse(&mut self, world: &mut ClusterWorld) {
        let (node, lasts) = (self.node(world), self.millis(100, 5_000));
        let env = &mut world.env;
        env.note(node, TraceEvent::Fault("lets nobody in", None));
        env.network.links().refuse(node);
        env.after(lasts, ClusterEvent::Admits(node));
    }

    fn crash(&mut self, world: &mut ClusterWorld) {
        let (node, lasts) = (self.node(world), self.millis(20, 5_000));
        let kind = match self.luck.happens(0.5) {
            true => CrashKind::Process,
            false => CrashKind::Host,
        };
        world.crash(node, kind);
        world.env.after(lasts, ClusterEvent::Restart(node));
    }

    fn stop(&mut self, world: &mut ClusterWorld) {
        let (number, lasts) = (self.node(world), self.millis(5, 14_000));
        let heals_at = world.heals_at();
        if let Some((node, env)) = world.running(number) {
            env.note(number, TraceEvent::Fault("stops for a while", None));
            node.stop_until(heals_at.min(env.now + lasts));
        }
    }

    fn set_clock(&mut self, world: &mut ClusterWorld) {
        let number = self.node(world);
        let (slowest, fastest) = CLOCK_PERCENTS;
        let percent = slowest + self.luck.below(u64::from(fastest - slowest + 1)) as u32;
        if let Some((node, env)) = world.running(number) {
            env.note(number, TraceEvent::Fault("has another clock", None));
            node.state.clock.set_speed(env.now, percent);
        }
    }

    fn need(&mut self, world: &mut ClusterWorld) {
        let (number, lasts) = (self.node(world), self.millis(50, 4_000));
        let own = 2 + self.luck.below(world.own_max(number));
        if let Some((node, env)) = world.running(number)
            && node.state.stopped_until <= env.now
        {
            node.need(env, own);
            env.after(lasts, ClusterEvent::NeedOver(node.state.run));
        }
    }

    fn set_wish(&mut self, world: &mut ClusterWorld) {
        let number = self.node(world);
        let wish = match self.luck.happens(0.4) {
            true => 0,
            false => self.luck.below(u64::from(FAR_BLOCKS_MAX)) as u32,
        };
        if let Some((node, env)) = world.running(number) {
            env.note(number, TraceEvent::Fault("wishes for something else", None));
            node.wish = wish;
        }
    }

    fn recall(&mut self, world: &mut ClusterWorld) {
        let number = self.node(world);
        let within: Duration = self.millis(10, 4_000).into();
        let input = match self.luck.below(4) {
            0 => LendingInput::RecallNow,
            _ => LendingInput::Recall {
                blocks: 1 + self.luck.below(12) as u32,
                within,
            },
        };
        self.command(world, number, input);
    }

    fn drain(&mut self, world: &mut ClusterWorld) {
        let number = self.node(world);
        let within: Duration = self.millis(10, 4_000).into();
        let input = match self.luck.below(3) {
            0 => LendingInput::Drain { within },
            _ => LendingInput::Resume,
        };
        self.command(world, number, input);
    }

    /// An operator tells a node that runs something.
    fn command(&mut self, world: &mut ClusterWorld, number: NodeNumber, input: LendingInput) {
        if let Some((node, env)) = world.running(number)
            && node.state.stopped_until <= env.now
        {
            env.note(
                number,
                TraceEvent::Fault("has a command of its operator", None),
            );
            node.tell(env, input);
        }
    }

    fn lie(&mut self, world: &mut ClusterWorld) {
        let (number, lasts) = (self.node(world), self.millis(100, 3_000));
        let one_in = 1 + self.luck.below(20);
        if let Some((node, env)) = world.running(number) {
            env.note(number, TraceEvent::Fault("alters pages", None));
            node.set_lies(Some(one_in));
            env.after(lasts, ClusterEvent::Honest(node.state.run));
        }
    }
}
