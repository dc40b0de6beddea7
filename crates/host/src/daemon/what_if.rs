//! What-if questions of the daemon's owner.

use std::collections::HashMap;

use sublet_client::messages::{VERSION, WhatIf, WhatIfQuery, WhatIfTenant};
use sublet_policy::catalogue::PolicyChoice;
use sublet_policy::what_if::{
    self, GrantOutcome, GrantRefusal, HistoryRecord, HoldingChange, PolicyReplay,
};
use sublet_types::{Bytes, Pages, TenantId, TenantName};

use super::Daemon;
use super::request_error::RequestError;
use super::what_if_error::WhatIfError;
use crate::manager;
use crate::tenants::TenantsError;

/// A question.
enum WhatIfQuestion {
    Hits(TenantName, f64),
    Memory(TenantName, Bytes),
    Policy(PolicyChoice),
}

impl WhatIfQuestion {
    fn of(asked: &WhatIfQuery) -> Result<WhatIfQuestion, RequestError> {
        let named = |name: &String| name.parse::<TenantName>();
        let tenant = asked.tenant.as_ref().map(named).transpose();
        let tenant = tenant.map_err(|_| WhatIfError::NoQuestion)?;
        match (tenant, asked.hits, asked.memory, &asked.policy) {
            (Some(tenant), Some(hits), None, None) if hits > 0.0 && hits <= 1.0 => {
                Ok(WhatIfQuestion::Hits(tenant, hits))
            }
            (Some(_), Some(hits), None, None) => Err(WhatIfError::NotAFraction(hits).into()),
            (Some(tenant), None, Some(memory), None) => Ok(WhatIfQuestion::Memory(tenant, memory)),
            (None, None, None, Some(policy)) => {
                let knobs = asked.knobs.iter().flat_map(|knobs| knobs.split(','));
                let knobs: Vec<String> = knobs.map(str::to_owned).collect();
                Ok(WhatIfQuestion::Policy(manager::choice(policy, &knobs)?))
            }
            _ => Err(WhatIfError::NoQuestion.into()),
        }
    }
}

impl Daemon {
    /// What would happen for this many hits, with this much memory, or under another policy. With hundreds of tenants
    /// this takes up to some seconds of one core.
    pub fn what_if(&self, asked: &WhatIfQuery) -> Result<WhatIf, RequestError> {
        let question = WhatIfQuestion::of(asked)?;
        let (records, current) = self.manager.records();
        let past = RecordedHour::new(self, &records);
        let rule = current.entry().name;
        Ok(match question {
            WhatIfQuestion::Hits(tenant, hits) => {
                let id = self.tenants.find(&tenant)?.id;
                let granted = what_if::for_hits(&records, &current, id, hits);
                let told = |refusal| past.refusal_error(refusal, tenant, hits);
                past.granted_reply(rule, &granted.map_err(told)?)
            }
            WhatIfQuestion::Memory(tenant, memory) => {
                let id = self.tenants.find(&tenant)?.id;
                let granted = what_if::with_memory(&records, &current, id, Pages::of(memory));
                let told = |refusal| past.refusal_error(refusal, tenant, 1.0);
                past.granted_reply(rule, &granted.map_err(told)?)
            }
            WhatIfQuestion::Policy(other) => {
                let [before, after] =
                    [&current, &other].map(|choice| what_if::replay(&records, choice));
                past.replayed_reply((rule, &before), (other.entry().name, &after))
            }
        })
    }
}

/// What is known of the last hour.
struct RecordedHour<'a> {
    records: &'a [HistoryRecord],
    names: HashMap<TenantId, TenantName>,
}

impl RecordedHour<'_> {
    fn new<'a>(daemon: &Daemon, records: &'a [HistoryRecord]) -> RecordedHour<'a> {
        let tenants = daemon.backend.store.all_settings().into_iter();
        let names = tenants.map(|(id, settings)| (id, settings.name));
        RecordedHour {
            records,
            names: names.collect(),
        }
    }

    /// The time from the first record to the last. A record describes the minute before it.
    fn secs(&self) -> u64 {
        let ends = self.records.first().zip(self.records.last());
        let secs = ends.map_or(0, |(first, last)| last.at.0.saturating_sub(first.at.0));
        u64::from(
            secs.max(60)
                .min(self.records.last().map_or(0, |last| last.at.0)),
        )
    }

    fn refusal_error(
        &self,
        refusal: GrantRefusal,
        tenant: TenantName,
        wanted: f64,
    ) -> RequestError {
        let secs = self.secs();
        RequestError::WhatIf(match refusal {
            GrantRefusal::Unknown => return TenantsError::Unknown(tenant).into(),
            GrantRefusal::NotMeasured => WhatIfError::NotMeasured(tenant),
            GrantRefusal::OutOfReach { most, with } => WhatIfError::OutOfReach {
                tenant,
                wanted,
                most,
                with,
                secs,
            },
            GrantRefusal::Ceiling {
                needs,
                ceiling,
                hits,
            } => WhatIfError::Ceiling {
                tenant,
                needs,
                ceiling,
                hits,
            },
            GrantRefusal::NoRoom { needs, most, hits } => WhatIfError::NoRoom {
                tenant,
                needs,
                most,
                hits,
            },
        })
    }

    /// What was counted of a tenant: gets per second, and the part of them that were hits.
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

    /// A tenant's floor now.
    fn floor(&self, id: TenantId) -> Bytes {
        let now = self.records.last();
        let mut parties = now.into_iter().flat_map(|record| &record.tenants);
        let own = parties.find(|party| party.id == id);
        own.map_or(Bytes::ZERO, |party| party.floor.bytes())
    }

    fn granted_reply(&self, rule: &str, granted: &GrantOutcome) -> WhatIf {
        let row = |change: &HoldingChange| {
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
            hits_before: share_of_all_gets(&tenants, |tenant| tenant.hits_before),
            hits_after: share_of_all_gets(&tenants, |tenant| tenant.hits_after),
            tenants,
        }
    }

    fn replayed_reply(
        &self,
        before: (&str, &PolicyReplay),
        after: (&str, &PolicyReplay),
    ) -> WhatIf {
        let both = before.1.tenants.iter().zip(&after.1.tenants);
        let row = |(before, after): (&what_if::TenantReplay, &what_if::TenantReplay)| {
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

/// The part of all gets that the measured tenants have.
fn share_of_all_gets(
    tenants: &[WhatIfTenant],
    part: impl Fn(&WhatIfTenant) -> Option<f64>,
) -> Option<f64> {
    let measured = tenants
        .iter()
        .filter_map(|tenant| Some((tenant.gets, part(tenant)?)));
    let (gets, hits) = measured.fold((0.0, 0.0), |(gets, hits), (own, part)| {
        (gets + own, hits + own * part)
    });
    (gets > 0.0).then(|| hits / gets)
}
