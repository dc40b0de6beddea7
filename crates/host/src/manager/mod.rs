//! The Memory Manager. Each second the policy sees a snapshot of the store and says what every tenant may hold. The
//! manager applies what changed and writes it down with its reason.

mod log_file;
mod losses;
mod movements;
mod snapshot;
mod strain;
mod target_reporter;
mod tenant_curves;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_frontends::backend::Backend;
use sublet_policy::catalogue::{PolicyChoice, PolicyChoiceError};
use sublet_policy::explain::LossCause;
use sublet_policy::transfers::{Holder, MemoryTransfer};
use sublet_policy::what_if::HistoryRecord;
use sublet_policy::{AskingRule, Decision, Policy};
use sublet_types::{Bytes, Pages, Targets, TenantId, TenantName};

use log_file::PolicyLogFile;
use losses::LossTracker;
use movements::MoveTracker;
use snapshot::StatisticsSampler;
use strain::StrainReporter;
use target_reporter::TargetReporter;
pub use tenant_curves::RecentEvictions;

use crate::config::PolicyConfig;
use crate::headroom::{ManualReleaseList, ManualReleases};
use crate::observe::events::{
    Actor, EventAmount, EventDetail, EventId, EventReason, Events, PolicyOutcome, PolicyRecord,
    PostedEvent,
};
use crate::peers::policy_wish::PolicyWish;
use crate::shutdown_signal::ShutdownSignal;

impl PolicyConfig {
    /// The policy, if there is one of that name.
    pub fn choice(&self) -> Result<PolicyChoice, WrongPolicy> {
        choice(&self.name, &self.knobs)
    }
}

/// Why no policy could be made from the settings.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WrongPolicy {
    /// There is no such policy, or it has no such knobs.
    #[error(transparent)]
    Choice(#[from] PolicyChoiceError),
    /// A knob without a value.
    #[error("{0:?} is no knob=value")]
    NoPair(String),
}

impl WrongPolicy {
    /// Returns whether the name is right and only the knobs are wrong.
    pub(crate) fn is_of_knobs(&self) -> bool {
        !matches!(
            self,
            WrongPolicy::Choice(PolicyChoiceError::UnknownPolicy { .. })
        )
    }
}

/// The policy of that name with these knobs set.
pub fn choice(name: &str, knobs: &[String]) -> Result<PolicyChoice, WrongPolicy> {
    let pair = |knob: &'_ String| {
        let pair = knob
            .split_once('=')
            .map(|(knob, value)| (knob.trim().to_owned(), value.trim().to_owned()));
        pair.ok_or_else(|| WrongPolicy::NoPair(knob.clone()))
    };
    let pairs: Vec<(String, String)> = knobs.iter().map(pair).collect::<Result<_, _>>()?;
    let pairs = pairs
        .iter()
        .map(|(knob, value)| (knob.as_str(), value.as_str()));
    Ok(PolicyChoice::new(name, pairs)?)
}

/// The Memory Manager. It ends when it is dropped, and the targets then stay as they are.
pub struct MemoryManager {
    policy_loop: Arc<PolicyLoop>,
    ending: Arc<ShutdownSignal>,
    thread: Option<JoinHandle<()>>,
}

/// What the manager's thread and its owner share.
struct PolicyLoop {
    backend: Backend,
    in_force: Mutex<PolicyInForce>,
    events: Events,
    /// What releases by hand take from tenants.
    by_hand: Arc<ManualReleases>,
    /// What the policy asks of other hosts.
    wish: Arc<PolicyWish>,
    /// A thread that waits for this lock holds no other, because a file system may hang.
    log_file: Option<Mutex<PolicyLogFile>>,
}

/// The policy in force.
struct PolicyInForce {
    choice: PolicyChoice,
    policy: Box<dyn Policy>,
    observer: StatisticsSampler,
    losses: LossTracker,
    movements: MoveTracker,
    target_reporter: TargetReporter,
    strain: StrainReporter,
    /// Whether all floors together were more than tenants may hold.
    floors_were_short: bool,
    /// The policy's last targets.
    targets: Targets,
}

impl MemoryManager {
    /// Starts the manager with `choice`. Decisions and losses of tenants are posted to `events`, by hand or not.
    pub fn start(
        backend: &Backend,
        config: &PolicyConfig,
        choice: PolicyChoice,
        events: &Events,
        by_hand: Arc<ManualReleases>,
        wish: Arc<PolicyWish>,
    ) -> io::Result<MemoryManager> {
        let log_file = config
            .log_file
            .as_deref()
            .map(PolicyLogFile::open)
            .transpose()?;
        backend.store.set_shrinking(config.shrinking);
        let policy_loop = Arc::new(PolicyLoop {
            backend: backend.clone(),
            in_force: Mutex::new(PolicyInForce {
                policy: choice.make(),
                choice,
                observer: StatisticsSampler::default(),
                losses: LossTracker::default(),
                movements: MoveTracker::default(),
                target_reporter: TargetReporter::default(),
                strain: StrainReporter::default(),
                floors_were_short: false,
                targets: Targets::default(),
            }),
            events: events.clone(),
            by_hand,
            wish,
            log_file: log_file.map(Mutex::new),
        });
        let ending = Arc::new(ShutdownSignal::default());
        let (worker, end, interval) = (
            Arc::clone(&policy_loop),
            Arc::clone(&ending),
            config.interval,
        );
        let body = move || {
            worker.decide();
            while !end.wait_for(interval) {
                worker.decide();
            }
        };
        let thread = thread::Builder::new()
            .name("manager".to_owned())
            .spawn(body)?;
        Ok(MemoryManager {
            policy_loop,
            ending,
            thread: Some(thread),
        })
    }

    /// The policy in force.
    pub fn choice(&self) -> PolicyChoice {
        self.policy_loop.in_force.lock().choice.clone()
    }

    /// Puts another policy in force. It decides at once.
    pub fn change(&self, choice: PolicyChoice) {
        {
            let mut ruling = self.policy_loop.in_force.lock();
            ruling.policy = choice.make();
            ruling.choice = choice;
        }
        self.policy_loop.decide();
    }

    /// Decides at once, because a tenant came or went. When this returns, what was decided about a tenant that went no
    /// longer holds.
    pub fn decide_now(&self) {
        self.policy_loop.decide();
    }

    /// Which of a tenant's pages and items were evicted recently, as of the last snapshot.
    pub fn recent_evictions(&self, id: TenantId) -> RecentEvictions {
        self.policy_loop
            .in_force
            .lock()
            .observer
            .recent_evictions(id)
    }

    /// The last hour, with the oldest record first and the last snapshot at the end, and the policy in force.
    pub fn records(&self) -> (Vec<HistoryRecord>, PolicyChoice) {
        let ruling = self.policy_loop.in_force.lock();
        (ruling.observer.records(), ruling.choice.clone())
    }

    /// What went from one tenant to another since the start, and what of that came back within ten minutes.
    pub fn moves(&self) -> (Bytes, Bytes) {
        self.policy_loop.in_force.lock().movements.sums()
    }

    /// The policy's last targets.
    pub fn targets(&self) -> Targets {
        self.policy_loop.in_force.lock().targets.clone()
    }
}

/// How long the end waits for a decision that is under way. A decision that waits for its log file is left alone.
const PATIENCE: Duration = Duration::from_secs(5);

const LOOK: Duration = Duration::from_millis(1);

impl Drop for MemoryManager {
    fn drop(&mut self) {
        self.ending.declare();
        let until = Instant::now() + PATIENCE;
        while self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            if Instant::now() >= until {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

impl PolicyLoop {
    /// Takes a snapshot, decides, applies what changed, and writes it down.
    fn decide(&self) {
        let lines = self.decide_and_apply();
        if let Some(file) = self.log_file.as_ref().filter(|_| !lines.is_empty()) {
            let mut file = file.lock();
            lines.iter().for_each(|line| file.write(line));
        }
    }

    /// The same without writing it down. Returns what is to be written.
    fn decide_and_apply(&self) -> Vec<String> {
        let mut ruling = self.in_force.lock();
        let now = self.backend.clock.now();
        // Before the snapshot: nothing is released by hand until the snapshot accounts for it.
        let by_hand = self.by_hand.try_lock();
        let all = self.backend.store.all_figures();
        let snapshot = ruling.observer.sample(&self.backend, &all, now);
        let decision = ruling.policy.decide(&snapshot);
        let policy = ruling.choice.entry().name;
        let PolicyInForce {
            observer, losses, ..
        } = &mut *ruling;
        let taken = by_hand.map(|mut by_hand| std::mem::take(&mut *by_hand));
        let lost = taken.as_ref().map_or(Vec::new(), |taken| {
            losses.losses_since(&snapshot, taken, |id| observer.evicted(id))
        });
        let figures = &all.tenants;
        ruling.movements.update(figures, snapshot.free, now);
        ruling
            .strain
            .update(&self.backend, figures, now, &self.events);
        // Under the same lock, so that no older decision is applied after a newer one.
        self.apply(&decision);
        self.wish.set(asked(&*ruling.policy, &decision.targets));
        self.warn_of_short_floors(&mut ruling.floors_were_short);
        let lost = lost.into_iter();
        let lost = lost.map(|(id, loss, moves)| (id, PolicyOutcome::Lost(loss), moves));
        let changes = ruling.target_reporter.changes(&decision).into_iter();
        let changes = changes.map(|(one, moves)| (one.id, PolicyOutcome::Decided(one), moves));
        let taken = taken.unwrap_or_default();
        let lines = self.report(policy, &taken, lost.chain(changes));
        ruling.targets = decision.targets;
        lines
    }

    /// Warns once when floors together begin to be more than there is. That may happen at the start, after a tenant was
    /// changed, or since the host left the arena less.
    fn warn_of_short_floors(&self, were_short: &mut bool) {
        let floors = self.backend.store.floors();
        let are_short = floors.short() > Bytes::ZERO;
        if are_short && !*were_short {
            let (asked, room) = (floors.asked, floors.room);
            tracing::warn!(%asked, %room, "the tenants' floors together are more than tenants may hold; the daemon cuts each in proportion: `sublet tenants set NAME --floor` lowers one");
        }
        *were_short = are_short;
    }

    fn names(&self) -> HashMap<TenantId, TenantName> {
        let all = self.backend.store.all_settings().into_iter();
        all.map(|(id, settings)| (id, settings.name)).collect()
    }

    fn apply(&self, decision: &Decision) {
        for target in &decision.targets.tenants {
            let bytes = target.pages.map(|pages| pages.bytes());
            self.backend.store.set_target(target.id, bytes);
            let guard = target.guard.map(|pages| pages.bytes());
            self.backend
                .store
                .set_guard(target.id, guard, target.giving);
        }
    }

    /// Reports what happened as events and as lines of the log file. `by_hand` says who released what.
    fn report(
        &self,
        policy: &'static str,
        by_hand: &ManualReleaseList,
        all: impl Iterator<Item = (TenantId, PolicyOutcome, Vec<MemoryTransfer<TenantId>>)>,
    ) -> Vec<String> {
        let mut all = all.peekable();
        if all.peek().is_none() {
            return Vec::new();
        }
        let names = self.names();
        let unix = unix_now(&self.backend);
        let told = |(id, what, moves): (TenantId, PolicyOutcome, Vec<MemoryTransfer<TenantId>>)| {
            let name = names.get(&id)?;
            let owner = by_hand
                .of_tenant(id)
                .map_or(Actor::Daemon, |taken| taken.by);
            let moves = moves
                .into_iter()
                .map(|one| with_tenant_name(one, &names))
                .collect();
            let record = PolicyRecord {
                policy,
                what,
                moves,
            };
            let line = record.line(unix, name);
            let (id, why, amount) = event_kind(&what);
            let by = match why {
                EventReason::ByHand => owner,
                EventReason::OverCeiling | EventReason::ArenaShrank | EventReason::LetGo => {
                    Actor::Daemon
                }
                _ => Actor::Policy(policy),
            };
            let mut cause = PostedEvent::new(id, why).to_tenant(name).by(by);
            if let Some(pages) = amount {
                cause = cause.of(EventAmount::Bytes(pages.bytes()));
            }
            self.events
                .post(cause.with(EventDetail::Policy(Box::new(record))));
            Some(line)
        };
        all.filter_map(told).collect()
    }
}

/// The kind of event, its reason, and the amount: the target from now on, if there is one, or what was lost.
/// What a policy asks of other hosts for all tenants. `None` if it leaves that to the host.
fn asked(policy: &dyn Policy, targets: &Targets) -> Option<Pages> {
    let wanted = targets.tenants.iter().map(|target| target.wanted.0);
    match policy.asking() {
        AskingRule::ByPolicy => Some(Pages(wanted.sum())),
        AskingRule::ByHost => None,
    }
}

fn event_kind(what: &PolicyOutcome) -> (EventId, EventReason, Option<Pages>) {
    let loss = match what {
        PolicyOutcome::Lost(loss) => loss,
        PolicyOutcome::Decided(change) => {
            let why = match change.is_change() {
                true if change.is_less() => EventReason::Lowered,
                true => EventReason::Raised,
                false => EventReason::Order,
            };
            return (EventId::TenantTarget, why, change.after);
        }
    };
    let (id, why) = match loss.cause {
        LossCause::OverTarget { .. } => (EventId::TenantSqueezed, EventReason::OverTarget),
        LossCause::OverCeiling { .. } => (EventId::TenantSqueezed, EventReason::OverCeiling),
        LossCause::ArenaShrank { .. } => (EventId::TenantSqueezed, EventReason::ArenaShrank),
        LossCause::Released { .. } => (EventId::TenantSqueezed, EventReason::ByHand),
        LossCause::GaveWay { .. } => (EventId::TenantSqueezed, EventReason::GaveWay),
        LossCause::MadeRoom => (EventId::TenantShrank, EventReason::MadeRoom),
        LossCause::LetGo => (EventId::TenantShrank, EventReason::LetGo),
    };
    let lost = Pages(loss.before.0.saturating_sub(loss.after.0));
    (id, why, Some(lost))
}

/// A move with the tenant's name. What a tenant had that is gone is free.
fn with_tenant_name(
    one: MemoryTransfer<TenantId>,
    names: &HashMap<TenantId, TenantName>,
) -> MemoryTransfer<TenantName> {
    let place = match one.place {
        Holder::Tenant(id) => names.get(&id).cloned().map_or(Holder::Free, Holder::Tenant),
        Holder::Free => Holder::Free,
        Holder::Host => Holder::Host,
        Holder::Others => Holder::Others,
    };
    MemoryTransfer {
        place,
        pages: one.pages,
    }
}

fn unix_now(backend: &Backend) -> u64 {
    backend.clock.unix(backend.clock.now())
}
