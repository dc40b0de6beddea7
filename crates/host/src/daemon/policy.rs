//! The daemon's policy, as its owner sees and changes it.

use sublet_client::messages::{
    ChangePolicy, Difference, Explained, Lasts, MemoryMove, Policies, PolicyDecision, PolicyKnob,
    PolicyStatus, RuleStatus, VERSION,
};
use sublet_policy::catalogue::{CATALOGUE, Choice, Entry};
use sublet_policy::moved::{Move, Place};
use sublet_types::{Pages, TenantName};

use super::Daemon;
use super::declined::Declined;
use crate::config::PolicyChange;
use crate::manager;
use crate::observe::events::{Actor, Cause, Event, EventId, Happened};

/// Decisions in one answer.
const TOLD_MAX: usize = 50;

impl Daemon {
    /// Every policy, and which one is in force.
    pub fn policies(&self) -> Policies {
        let choice = self.manager.choice();
        Policies {
            version: VERSION,
            current: choice.entry().name.to_owned(),
            policies: CATALOGUE.iter().map(|entry| told(entry, &choice)).collect(),
        }
    }

    /// Has another policy decide, and writes it down where it lasts.
    pub fn change_policy(&self, change: &ChangePolicy, by: Actor) -> Result<Policies, Declined> {
        let choice = manager::choice(&change.name, &change.knobs)?;
        let turn = self.live.turn()?;
        if change.lasts == Lasts::Always {
            let policy = PolicyChange {
                name: change.name.clone(),
                knobs: change.knobs.clone(),
            };
            turn.keep(|live| live.with_policy(policy))?;
        }
        let changed = Cause::new(EventId::PolicyChanged, change.lasts.into()).by(by);
        self.events.post(changed.saying(in_full(&choice)));
        self.manager.change(choice);
        drop(turn);
        Ok(self.policies())
    }

    /// What was decided about a tenant until then, the latest first. Of one that was removed as long as the log has it.
    pub fn explain(&self, name: &TenantName, until: u64) -> Result<Explained, Declined> {
        let (told, since) = self.events.about(name, until, TOLD_MAX);
        if told.is_empty() {
            self.tenant(name)?;
        }
        Ok(Explained {
            version: VERSION,
            since: Some(since),
            decisions: told.iter().filter_map(|event| decision(event)).collect(),
        })
    }
}

impl Daemon {
    /// Whether another policy decides than the config says, or with other knobs.
    pub(super) fn policy_difference(&self) -> Option<Difference> {
        let written = self.written.policy.choice().ok()?;
        let now = self.manager.choice();
        let kept = self.live.now().policy().is_some_and(|kept| {
            let kept = manager::choice(&kept.name, &kept.knobs);
            kept.is_ok_and(|kept| in_full(&kept) == in_full(&now))
        });
        (in_full(&now) != in_full(&written)).then(|| Difference {
            key: "policy".to_owned(),
            config: in_full(&written),
            now: in_full(&now),
            kept,
        })
    }

    /// Which policy is in force, and what it leaves over or would like to have.
    pub(super) fn rule(&self) -> RuleStatus {
        let targets = self.manager.targets();
        let wanted: Pages = targets.tenants.iter().map(|target| target.wanted).sum();
        RuleStatus {
            policy: self.manager.choice().entry().name.to_owned(),
            unassigned: targets.unassigned.bytes(),
            wanted: wanted.bytes(),
            moved: self.manager.moves().0,
            moves_undone: self.manager.moves().1,
            floors_short: self.backend.store.floors().short(),
        }
    }
}

/// A policy with the value of each knob: `smart-alloc p=0.75 …`.
fn in_full(choice: &Choice) -> String {
    let knobs = choice
        .values()
        .map(|(knob, value)| format!(" {}={value}", knob.name));
    choice.entry().name.to_owned() + &knobs.collect::<String>()
}

fn told(entry: &Entry, choice: &Choice) -> PolicyStatus {
    let in_force = entry.name == choice.entry().name;
    let value = |name: &str| {
        let mut values = choice.values().filter(|_| in_force);
        values
            .find(|(knob, _)| knob.name == name)
            .map(|(_, value)| value)
    };
    let knob = |knob: &sublet_policy::catalogue::Knob| PolicyKnob {
        name: knob.name.to_owned(),
        unit: knob.unit.to_string(),
        value: value(knob.name).unwrap_or(knob.default),
        default: knob.default,
        least: knob.least,
        most: knob.most,
        help: knob.help.to_owned(),
        why: knob.why.to_owned(),
    };
    PolicyStatus {
        name: entry.name.to_owned(),
        summary: entry.summary.to_owned(),
        paper: entry.paper.to_owned(),
        knobs: entry.knobs.iter().map(knob).collect(),
    }
}

fn decision(event: &Event) -> Option<PolicyDecision> {
    let record = event.policy()?;
    let (targets, held) = match &record.what {
        Happened::Decided(decided) => ((decided.before, decided.after), None),
        Happened::Lost(loss) => ((None, None), Some(*loss)),
    };
    let moved = |one: &Move<TenantName>| MemoryMove {
        place: match &one.place {
            Place::Tenant(_) => "tenant",
            Place::Free => "free",
            Place::Host => "host",
            Place::Others => "others",
        }
        .to_owned(),
        tenant: match &one.place {
            Place::Tenant(name) => Some(name.clone()),
            Place::Free | Place::Host | Place::Others => None,
        },
        amount: one.pages.bytes(),
    };
    Some(PolicyDecision {
        at: event.at_millis / 1000,
        policy: record.policy.to_owned(),
        before: targets.0.map(Pages::bytes),
        after: targets.1.map(Pages::bytes),
        held_before: held.map(|loss| loss.before.bytes()),
        held_after: held.map(|loss| loss.after.bytes()),
        moves: record.moves.iter().map(moved).collect(),
        why: record.why(),
    })
}
