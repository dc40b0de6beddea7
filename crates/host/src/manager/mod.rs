//! The Memory Manager: each second the policy sees a snapshot of the store and says what every tenant may
//! hold; what changed is applied, and written down with its reason.

mod followed;
mod log_file;
mod losses;
mod movements;
mod snapshot;
mod strain;
mod told;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_frontends::backend::Backend;
use sublet_policy::catalogue::{Choice, ChoiceError};
use sublet_policy::explain::LossCause;
use sublet_policy::moved::{Move, Place};
use sublet_policy::what_if::Record;
use sublet_policy::{Decision, Policy};
use sublet_types::{Bytes, Pages, Targets, TenantId, TenantName};

pub use followed::Leavers;
use log_file::LogFile;
use losses::Losses;
use movements::Movements;
use snapshot::Observer;
use strain::Strain;
use told::Told;

use crate::config::PolicyConfig;
use crate::ending::Ending;
use crate::headroom::{ByHand, Taken};
use crate::observe::events::{
    Actor, Amount, Cause, Detail, EventId, Events, Happened, PolicyRecord, Why,
};

impl PolicyConfig {
    /// The policy, if there is such a one.
    pub fn choice(&self) -> Result<Choice, WrongPolicy> {
        choice(&self.name, &self.knobs)
    }
}

/// Why no policy could be made of what was said.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WrongPolicy {
    /// No such policy, or not with such knobs.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// A knob without a value.
    #[error("{0:?} is no knob=value")]
    NoPair(String),
}

impl WrongPolicy {
    /// Whether the name is right, and only the knobs are not.
    pub(crate) fn is_of_knobs(&self) -> bool {
        !matches!(self, WrongPolicy::Choice(ChoiceError::UnknownPolicy { .. }))
    }
}

/// The policy of that name with these knobs set.
pub fn choice(name: &str, knobs: &[String]) -> Result<Choice, WrongPolicy> {
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
    Ok(Choice::new(name, pairs)?)
}

/// The Memory Manager. Dropped, it ends; the targets stay as they are.
pub struct Manager {
    seat: Arc<Seat>,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

/// What the manager's thread and its owner share.
struct Seat {
    backend: Backend,
    ruling: Mutex<Ruling>,
    events: Events,
    /// What releases by hand take of tenants.
    by_hand: Arc<ByHand>,
    /// Whoever waits for this holds nothing else: a file system may hang.
    log_file: Option<Mutex<LogFile>>,
}

/// The policy in force.
struct Ruling {
    choice: Choice,
    policy: Box<dyn Policy>,
    observer: Observer,
    losses: Losses,
    movements: Movements,
    told: Told,
    strain: Strain,
    /// Whether all floors were more together than tenants may hold.
    floors_were_short: bool,
    /// What it said last.
    targets: Targets,
}

impl Manager {
    /// Has `choice` decide from now on. What it decides and what tenants lose is told as `events`, by hand or not.
    pub fn start(
        backend: &Backend,
        config: &PolicyConfig,
        choice: Choice,
        events: &Events,
        by_hand: Arc<ByHand>,
    ) -> io::Result<Manager> {
        let log_file = config.log_file.as_deref().map(LogFile::open).transpose()?;
        backend.store.set_shrinking(config.shrinking);
        let seat = Arc::new(Seat {
            backend: backend.clone(),
            ruling: Mutex::new(Ruling {
                policy: choice.make(),
                choice,
                observer: Observer::default(),
                losses: Losses::default(),
                movements: Movements::default(),
                told: Told::default(),
                strain: Strain::default(),
                floors_were_short: false,
                targets: Targets::default(),
            }),
            events: events.clone(),
            by_hand,
            log_file: log_file.map(Mutex::new),
        });
        let ending = Arc::new(Ending::default());
        let (worker, end, interval) = (Arc::clone(&seat), Arc::clone(&ending), config.interval);
        let body = move || {
            worker.decide();
            while !end.came_within(interval) {
                worker.decide();
            }
        };
        let thread = thread::Builder::new()
            .name("manager".to_owned())
            .spawn(body)?;
        Ok(Manager {
            seat,
            ending,
            thread: Some(thread),
        })
    }

    /// The policy in force.
    pub fn choice(&self) -> Choice {
        self.seat.ruling.lock().choice.clone()
    }

    /// Has another policy decide from now on; it decides at once.
    pub fn change(&self, choice: Choice) {
        {
            let mut ruling = self.seat.ruling.lock();
            ruling.policy = choice.make();
            ruling.choice = choice;
        }
        self.seat.decide();
    }

    /// Decides at once: a tenant came or went. What was decided about who went holds no more when this returns.
    pub fn look(&self) {
        self.seat.decide();
    }

    /// Who of a tenant's pages and items was evicted of late, as of the last look.
    pub fn leavers(&self, id: TenantId) -> Leavers {
        self.seat.ruling.lock().observer.leavers(id)
    }

    /// The last hour, the oldest record first and the last look at its end, and the policy in force.
    pub fn records(&self) -> (Vec<Record>, Choice) {
        let ruling = self.seat.ruling.lock();
        (ruling.observer.records(), ruling.choice.clone())
    }

    /// What went from one tenant to another since the start, and what of that came back within ten minutes.
    pub fn moves(&self) -> (Bytes, Bytes) {
        self.seat.ruling.lock().movements.sums()
    }

    /// What the policy said last.
    pub fn targets(&self) -> Targets {
        self.seat.ruling.lock().targets.clone()
    }
}

/// How long the end waits for a decision that is under way. One that waits for its log file is left to that.
const PATIENCE: Duration = Duration::from_secs(5);

const LOOK: Duration = Duration::from_millis(1);

impl Drop for Manager {
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

impl Seat {
    /// Looks, decides, applies what changed, and writes it down.
    fn decide(&self) {
        let lines = self.rule();
        if let Some(file) = self.log_file.as_ref().filter(|_| !lines.is_empty()) {
            let mut file = file.lock();
            lines.iter().for_each(|line| file.write(line));
        }
    }

    /// The same without writing it down: says what is to be written.
    fn rule(&self) -> Vec<String> {
        let mut ruling = self.ruling.lock();
        let now = self.backend.clock.now();
        // Before the snapshot: nothing is released by hand until that is accounted for.
        let by_hand = self.by_hand.taken();
        let all = self.backend.store.all_figures();
        let snapshot = ruling.observer.look(&self.backend, &all, now);
        let decision = ruling.policy.decide(&snapshot);
        let policy = ruling.choice.entry().name;
        let Ruling {
            observer, losses, ..
        } = &mut *ruling;
        let taken = by_hand.map(|mut by_hand| std::mem::take(&mut *by_hand));
        let lost = taken.as_ref().map_or(Vec::new(), |taken| {
            losses.look(&snapshot, taken, |id| observer.evicted(id))
        });
        let figures = &all.tenants;
        ruling.movements.look(figures, snapshot.free, now);
        ruling
            .strain
            .look(&self.backend, figures, now, &self.events);
        // Under the same lock, so that no older decision is applied after a newer one.
        self.apply(&decision);
        self.say_that_floors_are_short(&mut ruling.floors_were_short);
        let lost = lost.into_iter();
        let lost = lost.map(|(id, loss, moves)| (id, Happened::Lost(loss), moves));
        let changes = ruling.told.changes(&decision).into_iter();
        let changes = changes.map(|(one, moves)| (one.id, Happened::Decided(one), moves));
        let taken = taken.unwrap_or_default();
        let lines = self.tell(policy, &taken, lost.chain(changes));
        ruling.targets = decision.targets;
        lines
    }

    /// Warns once, when floors begin to be more together than there is: at the start, after a tenant was changed, or since the
    /// host left the arena less.
    fn say_that_floors_are_short(&self, were_short: &mut bool) {
        let floors = self.backend.store.floors();
        let are_short = floors.short() > Bytes::ZERO;
        if are_short && !*were_short {
            let (asked, room) = (floors.asked, floors.room);
            tracing::warn!(%asked, %room, "the tenants' floors are more together than tenants may hold: each is cut in proportion");
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

    /// Tells what happened as events, and as lines of the log file. `by_hand` says who released what.
    fn tell(
        &self,
        policy: &'static str,
        by_hand: &Taken,
        all: impl Iterator<Item = (TenantId, Happened, Vec<Move<TenantId>>)>,
    ) -> Vec<String> {
        let mut all = all.peekable();
        if all.peek().is_none() {
            return Vec::new();
        }
        let names = self.names();
        let unix = unix_now(&self.backend);
        let told = |(id, what, moves): (TenantId, Happened, Vec<Move<TenantId>>)| {
            let name = names.get(&id)?;
            let owner = by_hand.of(id).map_or(Actor::Daemon, |taken| taken.by);
            let moves = moves.into_iter().map(|one| named(one, &names)).collect();
            let record = PolicyRecord {
                policy,
                what,
                moves,
            };
            let line = record.line(unix, name);
            let (id, why, amount) = kind(&what);
            let by = match why {
                Why::ByHand => owner,
                Why::OverCeiling | Why::ArenaShrank | Why::LetGo => Actor::Daemon,
                _ => Actor::Policy(policy),
            };
            let mut cause = Cause::new(id, why).to_tenant(name).by(by);
            if let Some(pages) = amount {
                cause = cause.of(Amount::Bytes(pages.bytes()));
            }
            self.events
                .post(cause.with(Detail::Policy(Box::new(record))));
            Some(line)
        };
        all.filter_map(told).collect()
    }
}

/// Which kind of event something is, why, and how much it is: the target from now on, if there is one, or what was lost.
fn kind(what: &Happened) -> (EventId, Why, Option<Pages>) {
    let loss = match what {
        Happened::Lost(loss) => loss,
        Happened::Decided(change) => {
            let why = match change.is_change() {
                true if change.is_less() => Why::Lowered,
                true => Why::Raised,
                false => Why::Order,
            };
            return (EventId::TenantTarget, why, change.after);
        }
    };
    let (id, why) = match loss.cause {
        LossCause::OverTarget { .. } => (EventId::TenantSqueezed, Why::OverTarget),
        LossCause::OverCeiling { .. } => (EventId::TenantSqueezed, Why::OverCeiling),
        LossCause::ArenaShrank { .. } => (EventId::TenantSqueezed, Why::ArenaShrank),
        LossCause::Released { .. } => (EventId::TenantSqueezed, Why::ByHand),
        LossCause::GaveWay { .. } => (EventId::TenantSqueezed, Why::GaveWay),
        LossCause::MadeRoom => (EventId::TenantShrank, Why::MadeRoom),
        LossCause::LetGo => (EventId::TenantShrank, Why::LetGo),
    };
    let lost = Pages(loss.before.0.saturating_sub(loss.after.0));
    (id, why, Some(lost))
}

/// A move with the tenant's name. What one had that is gone is free.
fn named(one: Move<TenantId>, names: &HashMap<TenantId, TenantName>) -> Move<TenantName> {
    let place = match one.place {
        Place::Tenant(id) => names.get(&id).cloned().map_or(Place::Free, Place::Tenant),
        Place::Free => Place::Free,
        Place::Host => Place::Host,
        Place::Others => Place::Others,
    };
    Move {
        place,
        pages: one.pages,
    }
}

fn unix_now(backend: &Backend) -> u64 {
    backend.clock.unix(backend.clock.now())
}
