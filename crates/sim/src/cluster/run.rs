//! One run: faults, then everything heals, then all is quiet and the judges look. Then everything is flushed and goes
//! back, and they look a last time.

use super::environment::ClusterEvent;
use super::leadership::Leadership;
use super::mutation::Mutation;
use super::nemesis::Nemesis;
use super::plan::ClusterPlan;
use super::tally::ClusterTally;
use super::trace::TraceLength;
use super::traffic::ControlTrafficFigures;
use super::verdict::ClusterVerdict;
use super::world::ClusterWorld;
use crate::machine::tier_store::StoreTierError;
use crate::virtual_time::VirtualInstant;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterRun {
    /// The cluster and the times.
    pub plan: ClusterPlan,
    /// Where all random numbers come from.
    pub seed: u64,
    /// The rule that the run leaves out.
    pub mutation: Option<Mutation>,
    /// How much of the run is kept.
    pub trace: TraceLength,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOutcome {
    /// The seed.
    pub seed: u64,
    /// Who led.
    pub leadership: Leadership,
    /// What a judge found first.
    pub verdict: Option<ClusterVerdict>,
    /// How much happened.
    pub tally: ClusterTally,
    /// How much control traffic nodes had.
    pub traffic: ControlTrafficFigures,
    /// The last lines of the trace, or all, the oldest first.
    pub trace: Vec<String>,
}

impl ClusterRun {
    /// Runs until a judge finds something, or to the end. The same run has the same outcome on every machine.
    ///
    /// # Errors
    ///
    /// This machine has no memory for the stores.
    pub fn play(&self) -> Result<ClusterOutcome, StoreTierError> {
        self.play_telling(&mut |_| {})
    }

    /// As [`ClusterRun::play`], and tells each second of virtual time how far the run is.
    ///
    /// # Errors
    ///
    /// This machine has no memory for the stores.
    pub fn play_telling(
        &self,
        tell: &mut dyn FnMut(VirtualInstant),
    ) -> Result<ClusterOutcome, StoreTierError> {
        let ClusterRun {
            plan,
            seed,
            mutation,
            trace,
        } = *self;
        let mut world = ClusterWorld::start(plan, seed, mutation, trace)?;
        let mut nemesis = Nemesis::new(&mut world, seed);
        let mut second = world.env.now.second();
        while let Some(event) = world.step() {
            if world.env.now.second() != second {
                second = world.env.now.second();
                tell(world.env.now);
            }
            nemesis.follow(&mut world, event)?;
            if event == ClusterEvent::End {
                world.judge_end();
                break;
            }
            if world.env.judges.verdict().is_some() {
                break;
            }
        }
        let traffic = &world.env.network.traffic;
        let traffic = traffic.figures(world.env.now, world.leader());
        let leadership = world.leading.leadership;
        let env = &world.env;
        let verdict = env.judges.verdict().cloned();
        let is_kept = verdict.is_some() || trace == TraceLength::Whole;
        let sent = env.network.sent;
        Ok(ClusterOutcome {
            seed,
            leadership,
            verdict,
            traffic,
            tally: ClusterTally {
                control_bytes: sent.control,
                page_bytes: sent.pages,
                ..env.tally
            },
            trace: match is_kept {
                true => env.trace.lines(),
                false => Vec::new(),
            },
        })
    }
}
