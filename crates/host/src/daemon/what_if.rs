//! What would be, as the daemon's owner asks it.

use std::collections::HashMap;

use sublet_client::messages::{AskWhatIf, VERSION, WhatIf, WhatIfTenant};
use sublet_policy::catalogue::Choice;
use sublet_policy::what_if::{self, Change, Granted, Record, Refusal, Replayed};
use sublet_types::{Bytes, Pages, TenantId, TenantName};

use super::Daemon;
use super::declined::Declined;
use super::no_answer::NoAnswer;
use crate::manager;
use crate::tenants::TenantsError;

/// What was asked.
enum Question {
    Hits(TenantName, f64),
    Memory(TenantName, Bytes),
    Policy(Choice),
}

impl Question {
    fn of(asked: &AskWhatIf) -> Result<Question, Declined> {
        let named = |name: &String| name.parse::<TenantName>();
        let tenant = asked.tenant.as_ref().map(named).transpose();
        let tenant = tenant.map_err(|_| NoAnswer::NoQuestion)?;
        match (tenant, asked.hits, asked.memory, &asked.policy) {
            (Some(tenant), Some(hits), None, None) if hits > 0.0 && hits <= 1.0 => {
                Ok(Question::Hits(tenant, hits))
            }
            (Some(_), Some(hits), None, None) => Err(NoAnswer::NoPart(hits).into()),
            (Some(tenant), None, Some(memory), None) => Ok(Question::Memory(tenant, memory)),
            (None, None, None, Some(policy)) => {
                let knobs = asked.knobs.iter().flat_map(|knobs| knobs.split(','));
                let knobs: Vec<String> = knobs.map(str::to_owned).collect();
                Ok(Question::Policy(manager::choice(policy, &knobs)?))
            }
            _ => Err(NoAnswer::NoQuestion.into()),
        }
    }
}

impl Daemon {
    /// What would be for so many hits, with so much memory, or under another policy. Takes up to some seconds of one core
    /// where there are hundreds of tenants.
    pub fn what_if(&self, asked: &AskWhatIf) -> Result<WhatIf, Declined> {
        let question = Question::of(asked)?;
        let (records, current) = self.manager.records();
        let past = Past::new(self, &records);
        let rule = current.entry().name;
        Ok(match question {
            Question::Hits(tenant, hits) => {
                let id = self.tenants.find(&tenant)?.id;
                let granted = what_if::for_hits(&records, &current, id, hits);
                let told = |refusal| past.refused(refusal, tenant, hits);
                past.granted(rule, &granted.map_err(told)?)
            }
            Question::Memory(tenant, memory) => {
                let id = self.tenants.find(&tenant)?.id;
                let granted = what_if::with_memory(&records, &current, id, Pages::of(memory));
                let told = |refusal| past.refused(refusal, tenant, 1.0);
                past.granted(rule, &granted.map_err(told)?)
            }
            Question::Policy(other) => {
                let [before, after] =
                    [&current, &other].map(|choice| what_if::replay(&records, choice));
                past.replayed((rule, &before), (other.entry().name, &after))
            }
        })
    }
}

/// What is known of the last hour.
struct Past<'a> {
    records: &'a [Record],
    names: HashMap<TenantId, TenantName>,
}

impl Past<'_> {
    fn new<'a>(daemon: &Daemon, records: &'a [Record]) -> Past<'a> {
        let tenants = daemon.backend.store.all_settings().into_iter();
        let names = tenants.map(|(id, settings)| (id, settings.name));
        Past {
            records,
            names: names.collect(),
        }
    }

    /// From the first record to the last; a record tells of the minute before it.
    fn secs(&self) -> u64 {
        let ends = self.records.first().zip(self.records.last());
        let secs = ends.map_or(0, |(first, last)| last.at.0.saturating_sub(first.at.0));
        u64::from(
            secs.max(60)
                .min(self.records.last().map_or(0, |last| last.at.0)),
        )
    }

    fn refused(&self, refusal: Refusal, tenant: TenantName, wanted: f64) -> Declined {
        let secs = self.secs();
        Declined::WhatIf(match refusal {
            Refusal::Unknown => return TenantsError::Unknown(tenant).into(),
            Refusal::NotMeasured => NoAnswer::NotMeasured(tenant),
            Refusal::OutOfReach { most, with } => NoAnswer::OutOfReach {
                tenant,
                wanted,
                most,
                with,
                secs,
            },
            Refusal::Ceiling {
                needs,
                ceiling,
                hits,
            } => NoAnswer::Ceiling {
                tenant,
                needs,
                ceiling,
                hits,
            },
            Refusal::NoRoom { needs, most, hits } => NoAnswer::NoRoom {
                tenant,
                needs,
                most,
                hits,
            },
        })
    }

    /// What was counted of a tenant: gets a second, and their part that were hits.
    fn counted(&self, id: TenantId) -> (f64, Option<f64>) {
        let (mut gets, mut hits, mut records) = (0.0, 0.0, 0.0);
        for party in self.records.iter().flat_map(|record| &record.tenants) {
            if party.id == id {
                gets += party.rates.gets;
                hits += party.rates.hits;
                records += 1.0;
            }
        }
        let part = (gets > 0.0).then(|| hits / gets);
        (gets / f64::max(records, 1.0), part)
    }

    /// A tenant's floor as things stand.
    fn floor(&self, id: TenantId) -> Bytes {
        let now = self.records.last();
        let mut parties = now.into_iter().flat_map(|record| &record.tenants);
        let own = parties.find(|party| party.id == id);
        own.map_or(Bytes::ZERO, |party| party.floor.bytes())
    }

    fn granted(&self, rule: &str, granted: &Granted) -> WhatIf {
        let row = |change: &Change| {
            let (gets, hits_counted) = self.counted(change.id);
            Some(WhatIfTenant {
                name: self.names.get(&change.id)?.clone(),
                memory_before: change.before.bytes(),
                memory_after: change.after.bytes(),
                floor: self.floor(change.id),
                hits_before: change.hits_before,
                hits_after: change.hits_after,
                hits_counted,
                gets,
            })
        };
        let tenants: Vec<WhatIfTenant> = granted.changes.iter().filter_map(row).collect();
        WhatIf {
            version: VERSION,
            policy: rule.to_owned(),
            other: rule.to_owned(),
            secs: self.secs(),
            free_before: granted.free_before.bytes(),
            free_after: granted.free_after.bytes(),
            hits_before: of_all(&tenants, |tenant| tenant.hits_before),
            hits_after: of_all(&tenants, |tenant| tenant.hits_after),
            tenants,
        }
    }

    fn replayed(&self, before: (&str, &Replayed), after: (&str, &Replayed)) -> WhatIf {
        let both = before.1.tenants.iter().zip(&after.1.tenants);
        let row = |(before, after): (&what_if::Settled, &what_if::Settled)| {
            Some(WhatIfTenant {
                name: self.names.get(&before.id)?.clone(),
                memory_before: before.memory.bytes(),
                memory_after: after.memory.bytes(),
                floor: self.floor(before.id),
                hits_before: before.ratio(),
                hits_after: after.ratio(),
                hits_counted: self.counted(before.id).1,
                gets: before.gets,
            })
        };
        WhatIf {
            version: VERSION,
            policy: before.0.to_owned(),
            other: after.0.to_owned(),
            secs: self.secs(),
            tenants: both.filter_map(row).collect(),
            free_before: before.1.free.bytes(),
            free_after: after.1.free.bytes(),
            hits_before: before.1.ratio(),
            hits_after: after.1.ratio(),
        }
    }
}

/// The part of all gets of those that are measured.
fn of_all(tenants: &[WhatIfTenant], part: impl Fn(&WhatIfTenant) -> Option<f64>) -> Option<f64> {
    let measured = tenants
        .iter()
        .filter_map(|tenant| Some((tenant.gets, part(tenant)?)));
    let (gets, hits) = measured.fold((0.0, 0.0), |(gets, hits), (own, part)| {
        (gets + own, hits + own * part)
    });
    (gets > 0.0).then(|| hits / gets)
}
