//! What a policy decided about a tenant, and what a tenant lost. This is an event's detail, from which `policy explain`
//! says why.

use sublet_policy::explain::{Explanation, Loss};
use sublet_policy::transfers::{Holder, MemoryTransfer};
use sublet_types::TenantName;

/// What happened to one tenant under a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRecord {
    /// The policy.
    pub policy: &'static str,
    /// What happened, and why.
    pub what: PolicyOutcome,
    /// Where the memory went that the tenant lost, or where the memory came from that it may hold more.
    pub moves: Vec<MemoryTransfer<TenantName>>,
}

/// What can happen to a tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyOutcome {
    /// Its target changed.
    Decided(Explanation),
    /// It holds less than it did.
    Lost(Loss),
}

impl PolicyRecord {
    pub(super) fn bytes(&self) -> usize {
        let names = self.moves.iter().map(|one| match &one.place {
            Holder::Tenant(name) => name.as_str().len(),
            Holder::Free | Holder::Host | Holder::Others => 0,
        });
        size_of::<PolicyRecord>() + size_of_val(&self.moves[..]) + names.sum::<usize>()
    }

    /// What and why, as a sentence.
    pub fn why(&self) -> String {
        let (said, verb) = match &self.what {
            PolicyOutcome::Decided(explanation) if explanation.is_less() => {
                (explanation.to_string(), "for")
            }
            PolicyOutcome::Decided(explanation) => (explanation.to_string(), "from"),
            PolicyOutcome::Lost(loss) => (loss.to_string(), "to"),
        };
        if self.moves.is_empty() {
            return said;
        }
        let part = |one: &MemoryTransfer<TenantName>| {
            let whose = match &one.place {
                Holder::Tenant(name) => name.to_string(),
                Holder::Free => "what is free".to_owned(),
                Holder::Host => "the host".to_owned(),
                Holder::Others => "others".to_owned(),
            };
            format!("{} {verb} {whose}", one.pages.bytes())
        };
        let parts: Vec<String> = self.moves.iter().map(part).collect();
        format!("{said}; {}", parts.join(", "))
    }

    /// As a line of JSON.
    pub fn line(&self, at: u64, tenant: &TenantName) -> String {
        let mut line = match &self.what {
            PolicyOutcome::Decided(explanation) => serde_json::json!({
                "pages_before": explanation.before.map(|pages| pages.0),
                "pages_after": explanation.after.map(|pages| pages.0),
                "why": explanation.reason,
                "bound": explanation.bound,
            }),
            PolicyOutcome::Lost(loss) => serde_json::json!({
                "held_before": loss.before.0,
                "held_after": loss.after.0,
                "secs": loss.secs,
                "why": loss.cause,
            }),
        };
        line["moves"] = serde_json::json!(self.moves);
        line["at"] = at.into();
        line["policy"] = self.policy.into();
        line["tenant"] = tenant.as_str().into();
        format!("{line}\n")
    }

    /// Adds what followed within the second, for the same reason: from what there was before the first to what there is
    /// after the last.
    pub(super) fn add(&mut self, later: PolicyRecord) {
        let what = match (self.what, later.what) {
            (PolicyOutcome::Decided(first), PolicyOutcome::Decided(last)) => {
                PolicyOutcome::Decided(Explanation {
                    before: first.before,
                    ..last
                })
            }
            (PolicyOutcome::Lost(first), PolicyOutcome::Lost(last)) => PolicyOutcome::Lost(Loss {
                before: first.before,
                secs: first.secs.saturating_add(last.secs),
                ..last
            }),
            (_, what) => what,
        };
        for one in later.moves {
            match self.moves.iter_mut().find(|known| known.place == one.place) {
                Some(known) => known.pages.0 += one.pages.0,
                None => self.moves.push(one),
            }
        }
        self.policy = later.policy;
        self.what = what;
    }
}

#[cfg(test)]
mod tests {
    use sublet_policy::explain::{LossCause, Reason};
    use sublet_types::{Pages, TenantId};

    use super::*;

    fn change(to: u64) -> PolicyOutcome {
        PolicyOutcome::Decided(Explanation {
            id: TenantId(1),
            before: Some(Pages(1)),
            after: Some(Pages(to)),
            reason: Reason::EqualShare { tenants: 2 },
            bound: None,
        })
    }

    fn moves() -> Vec<MemoryTransfer<TenantName>> {
        let ben = Holder::Tenant("ben".parse().expect("a name"));
        let all = [(ben, 512), (Holder::Free, 256)];
        let moved = |(place, pages)| MemoryTransfer {
            place,
            pages: Pages(pages),
        };
        all.map(moved).to_vec()
    }

    fn record(what: PolicyOutcome) -> PolicyRecord {
        PolicyRecord {
            policy: "static-alloc",
            what,
            moves: moves(),
        }
    }

    #[test]
    fn the_sentence_says_where_memory_went_and_came_from() {
        let shared = "each of 2 tenants has an equal share";
        assert_eq!(
            record(change(769)).why(),
            format!(
                "from 4.00 KiB to 3.00 MiB: {shared}; 2.00 MiB from ben, 1.00 MiB from what is free"
            )
        );
        let loss = Loss {
            before: Pages(1024),
            after: Pages(256),
            secs: 2,
            cause: LossCause::LetGo,
        };
        let why = record(PolicyOutcome::Lost(loss)).why();
        assert!(
            why.ends_with("; 2.00 MiB to ben, 1.00 MiB to what is free"),
            "{why}"
        );
    }

    #[test]
    fn what_follows_within_a_second_is_one_record_that_adds_up() {
        let loss = |before, after| {
            record(PolicyOutcome::Lost(Loss {
                before: Pages(before),
                after: Pages(after),
                secs: 1,
                cause: LossCause::MadeRoom,
            }))
        };
        let mut both = loss(2000, 1232);
        both.add(loss(1232, 464));
        assert!(both.why().contains("in 2 s"), "{}", both.why());
        let moved = both.moves.iter().map(|one| one.pages.0).sum::<u64>();
        assert_eq!((moved, both.moves.len()), (2000 - 464, 2));
    }
}
