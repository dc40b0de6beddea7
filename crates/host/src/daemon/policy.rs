//! The daemon's policy, as its owner sees and changes it.

use sublet_client::messages::{
    ChangeLifetime, ChangePolicy, ConfigDifference, MemoryMove, Policies, PolicyDecision,
    PolicyExplanation, PolicyKnob, PolicyStatus, RuleStatus, VERSION,
};
use sublet_policy::catalogue::{CATALOGUE, PolicyChoice, PolicyEntry};
use sublet_policy::transfers::{Holder, MemoryTransfer};
use sublet_types::{Pages, TenantName};

use super::Daemon;
use super::request_error::RequestError;
use crate::config::PolicyChange;
use crate::manager;
use crate::observe::events::{Actor, Event, EventId, PolicyOutcome, PostedEvent};

/// The most decisions in one answer.
const TOLD_MAX: usize = 50;

impl Daemon {
    /// Every policy, and which one is in force.
    pub fn policies(&self) -> Policies {
        let choice = self.manager.choice();
        Policies {
            version: VERSION,
            current: choice.entry().name.to_owned(),
            policies: CATALOGUE
                .iter()
                .map(|entry| policy_status(entry, &choice))
                .collect(),
        }
    }

    /// Puts another policy in force. If the change lasts, this writes it down.
    pub fn change_policy(
        &self,
        change: &ChangePolicy,
        by: Actor,
    ) -> Result<Policies, RequestError> {
        let choice = manager::choice(&change.name, &change.knobs)?;
        let turn = self.live.lock()?;
        if change.lasts == ChangeLifetime::Always {
            let policy = PolicyChange {
                name: change.name.clone(),
                knobs: change.knobs.clone(),
            };
            turn.persist(|live| live.with_policy(policy))?;
        }
        let changed = PostedEvent::new(EventId::PolicyChanged, change.lasts.into()).by(by);
        self.events.post(changed.saying(in_full(&choice)));
        self.manager.change(choice);
        drop(turn);
        Ok(self.policies())
    }

    /// What was decided about a tenant until then, the latest first. Decisions about a removed tenant are there as long
    /// as the log has them.
    pub fn explain(
        &self,
        name: &TenantName,
        until: u64,
    ) -> Result<PolicyExplanation, RequestError> {
        let (told, since) = self.events.policy_events(name, until, TOLD_MAX);
        if told.is_empty() {
            self.tenant(name)?;
        }
        Ok(PolicyExplanation {
            version: VERSION,
            since: Some(since),
            decisions: told.iter().filter_map(|event| decision(event)).collect(),
        })
    }
}

impl Daemon {
    /// Returns whether the policy in force differs from the config, or has other knobs.
    pub(super) fn policy_difference(&self) -> Option<ConfigDifference> {
        let written = self.written.policy.choice().ok()?;
        let now = self.manager.choice();
        let kept = self.live.current().policy().is_some_and(|kept| {
            let kept = manager::choice(&kept.name, &kept.knobs);
            kept.is_ok_and(|kept| in_full(&kept) == in_full(&now))
        });
        (in_full(&now) != in_full(&written)).then(|| ConfigDifference {
            key: "policy".to_owned(),
            config: in_full(&written),
            now: in_full(&now),
            kept,
        })
    }

    /// Which policy is in force, what it leaves over, and what it would like to have.
    pub(super) fn rule_status(&self) -> RuleStatus {
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
fn in_full(choice: &PolicyChoice) -> String {
    let knobs = choice
        .values()
        .map(|(knob, value)| format!(" {}={value}", knob.name));
    choice.entry().name.to_owned() + &knobs.collect::<String>()
}

fn policy_status(entry: &PolicyEntry, choice: &PolicyChoice) -> PolicyStatus {
    let in_force = entry.name == choice.entry().name;
    let value = |name: &str| {
        let mut values = choice.values().filter(|_| in_force);
        values
            .find(|(knob, _)| knob.name == name)
            .map(|(_, value)| value)
    };
    let knob = |knob: &sublet_policy::catalogue::PolicyKnobSpec| PolicyKnob {
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
        PolicyOutcome::Decided(decided) => ((decided.before, decided.after), None),
        PolicyOutcome::Lost(loss) => ((None, None), Some(*loss)),
    };
    let moved = |one: &MemoryTransfer<TenantName>| MemoryMove {
        place: match &one.place {
            Holder::Tenant(_) => "tenant",
            Holder::Free => "free",
            Holder::Host => "host",
            Holder::Others => "others",
        }
        .to_owned(),
        tenant: match &one.place {
            Holder::Tenant(name) => Some(name.clone()),
            Holder::Free | Holder::Host | Holder::Others => None,
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
