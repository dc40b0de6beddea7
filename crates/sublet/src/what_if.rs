//! `sublet policy what-if`: what would be for so many hits, with so much memory, or under another policy; and which
//! tenants would pay.

use std::fmt::Write as _;
use std::str::FromStr;

use comfy_table::{Table, presets};
use sublet_client::messages::{WhatIf, WhatIfQuery, WhatIfTenant};
use sublet_types::{Bytes, TenantName};

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::formatting::{format_table, json};

/// The question.
#[derive(clap::Args)]
#[group(id = "what", required = true, multiple = false, args = ["hits", "memory", "policy"])]
pub(crate) struct Args {
    /// Ask about this tenant
    #[arg(long, required_unless_present = "policy", conflicts_with = "policy")]
    tenant: Option<TenantName>,
    /// Let this part of its gets hit, such as 95%
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    hits: Option<Percent>,
    /// Give it this much memory, such as 4GiB
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    memory: Option<Bytes>,
    /// Let this policy decide
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Set its knobs, such as p=0.75
    #[arg(
        value_name = "KNOB=VALUE",
        requires = "policy",
        conflicts_with = "tenant"
    )]
    knobs: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// A part of all gets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Percent(f64);

/// Why a part was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum PercentError {
    /// It is no number, or out of range.
    #[error("{0:?} is no part of all gets: write 95%")]
    Nonsense(String),
    /// It is below one in a hundred, and lacks the percent sign.
    #[error("{0:?} is less than a hundredth: write {1}%, or {0}% if that is meant")]
    Fraction(String, f64),
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Percent, PercentError> {
        let nonsense = || PercentError::Nonsense(text.to_owned());
        let bare = text.strip_suffix('%').map(str::trim_end);
        let percent: f64 = bare.unwrap_or(text).parse().map_err(|_| nonsense())?;
        match percent {
            percent if !(percent > 0.0 && percent <= 100.0) => Err(nonsense()),
            percent if percent < 1.0 && bare.is_none() => {
                Err(PercentError::Fraction(text.to_owned(), percent * 100.0))
            }
            percent => Ok(Percent(percent / 100.0)),
        }
    }
}

impl Args {
    /// Asks the daemon, and returns its answer as text.
    pub(crate) fn call(&self) -> Result<String, Exit> {
        let query = WhatIfQuery {
            tenant: self.tenant.as_ref().map(|tenant| tenant.to_string()),
            hits: self.hits.map(|hits| hits.0),
            memory: self.memory,
            policy: self.policy.clone(),
            knobs: (!self.knobs.is_empty()).then(|| self.knobs.join(",")),
        };
        let answer = self.daemon.call(|admin| admin.what_if(&query))?;
        Ok(match (&self.tenant, self.json) {
            (_, true) => json(&answer),
            (Some(tenant), false) => of_tenant(tenant, &query, &answer),
            (None, false) => of_policy(&answer),
        })
    }
}

/// What a tenant would need or have, and one line per tenant that pays or gains.
fn of_tenant(name: &TenantName, query: &WhatIfQuery, answer: &WhatIf) -> String {
    let Some(own) = answer.tenants.iter().find(|tenant| tenant.name == *name) else {
        return format!("{name} has gone\n");
    };
    let WhatIfTenant {
        memory_before: has,
        memory_after: needs,
        ..
    } = own;
    let mut text = match query.hits {
        Some(hits) => format!("{name} needs {needs} for {} hits", as_asked(hits)),
        None => format!(
            "{name} would have {} hits with {needs}",
            percent(own.hits_after)
        ),
    };
    let _ = writeln!(
        text,
        "; it has {has}, with {} by its curve and {} counted",
        percent(own.hits_before),
        percent(own.hits_counted)
    );
    for line in others(name, answer) {
        let _ = writeln!(text, "  {line}");
    }
    if needs > has && *needs > own.floor {
        let mib = needs.0.div_ceil(1 << 20);
        let _ = writeln!(
            text,
            "  for good: sublet tenants set {name} --floor {mib}MiB"
        );
    }
    let _ = writeln!(
        text,
        "all tenants: {} hits instead of {}, by what the last {} asked",
        percent(answer.hits_after),
        percent(answer.hits_before),
        span(answer.secs)
    );
    text
}

/// What comes from whom, and what goes to whom. The amounts add up to what the tenant gets or gives.
fn others(name: &TenantName, answer: &WhatIf) -> Vec<String> {
    let mut lines = Vec::new();
    let free = (answer.free_before, answer.free_after);
    if free.0 > free.1 {
        lines.push(format!("{} of it are free now", free.0 - free.1));
    }
    for other in answer.tenants.iter().filter(|tenant| tenant.name != *name) {
        let WhatIfTenant {
            name,
            memory_before: before,
            memory_after: after,
            ..
        } = other;
        let cost = cost(other);
        match after.cmp(before) {
            std::cmp::Ordering::Less => {
                lines.push(format!("{name} would pay {}, {cost}", *before - *after))
            }
            std::cmp::Ordering::Greater => {
                lines.push(format!("{name} would get {}, {cost}", *after - *before))
            }
            std::cmp::Ordering::Equal => {}
        }
    }
    if free.1 > free.0 {
        lines.push(format!("{} of it would be free", free.1 - free.0));
    }
    lines
}

/// `1.2 points: 88.1 % hits instead of 89.3 %`.
fn cost(tenant: &WhatIfTenant) -> String {
    match tenant.hits_before.zip(tenant.hits_after) {
        Some((before, after)) => format!(
            "{:.1} points: {} hits instead of {}",
            (after - before).abs() * 100.0,
            percent(Some(after)),
            percent(Some(before))
        ),
        None => "its hits are not measured yet".to_owned(),
    }
}

/// Both policies side by side.
fn of_policy(answer: &WhatIf) -> String {
    let (now, then) = (answer.policy.as_str(), answer.other.as_str());
    let (column, other_column) = match now == then {
        true => (format!("{now}, as it is"), format!("{then}, as asked")),
        false => (now.to_owned(), then.to_owned()),
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "tenant",
        "counted",
        &column,
        "hits",
        &other_column,
        "hits",
        "points",
    ]);
    for tenant in &answer.tenants {
        table.add_row([
            tenant.name.to_string(),
            percent(tenant.hits_counted),
            tenant.memory_before.to_string(),
            measured(tenant.hits_before),
            tenant.memory_after.to_string(),
            measured(tenant.hits_after),
            points(tenant.hits_before, tenant.hits_after),
        ]);
    }
    let sum = |of: fn(&WhatIfTenant) -> Bytes| answer.tenants.iter().map(of).sum::<Bytes>();
    table.add_row([
        "all".to_owned(),
        String::new(),
        sum(|tenant| tenant.memory_before).to_string(),
        percent(answer.hits_before),
        sum(|tenant| tenant.memory_after).to_string(),
        percent(answer.hits_after),
        points(answer.hits_before, answer.hits_after),
    ]);
    table.add_row([
        "free".to_owned(),
        String::new(),
        answer.free_before.to_string(),
        String::new(),
        answer.free_after.to_string(),
    ]);
    format!(
        "{}\n{other_column} instead of {now}, which decides now: both replayed by one model over what the last {} asked\n",
        format_table(table, 1..7),
        span(answer.secs)
    )
}

/// Formats `99.99 %` with as many places as were asked for, at most four.
fn as_asked(part: f64) -> String {
    format!("{} %", (part * 1e6).round() / 1e4)
}

fn percent(part: Option<f64>) -> String {
    part.map_or("–".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

fn measured(part: Option<f64>) -> String {
    part.map_or("not measured yet".to_owned(), |part| percent(Some(part)))
}

fn points(before: Option<f64>, after: Option<f64>) -> String {
    let both = before.zip(after);
    both.map_or("–".to_owned(), |(before, after)| {
        format!("{:+.1}", (after - before) * 100.0)
    })
}

/// `58 min`, `40 s`.
fn span(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        _ => format!("{} min", secs / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_written_with_its_sign_or_plainly() {
        assert_eq!("95%".parse(), Ok(Percent(0.95)));
        assert_eq!("95 %".parse(), Ok(Percent(0.95)));
        assert_eq!("100".parse(), Ok(Percent(1.0)));
        assert_eq!("0.5%".parse(), Ok(Percent(0.005)));
        let refused = |text: &str| text.parse::<Percent>().expect_err(text).to_string();
        assert_eq!(
            refused("0.95"),
            "\"0.95\" is less than a hundredth: write 95%, or 0.95% if that is meant"
        );
        for wrong in ["", "%", "many", "0%", "101%", "-5", "NaN", "inf"] {
            assert!(refused(wrong).ends_with("write 95%"), "{wrong}");
        }
    }

    const GIB: u64 = 1 << 30;

    fn tenant(name: &str, memory: [u64; 2], hits: Option<[f64; 2]>) -> WhatIfTenant {
        WhatIfTenant {
            name: name.parse().expect("a name"),
            memory_before: Bytes(memory[0]),
            memory_after: Bytes(memory[1]),
            floor: Bytes(GIB),
            hits_before: hits.map(|hits| hits[0]),
            hits_after: hits.map(|hits| hits[1]),
            hits_counted: Some(0.8),
            gets: 10.0,
        }
    }

    fn answer(other: &str) -> WhatIf {
        WhatIf {
            version: 1,
            policy: "weights".to_owned(),
            other: other.to_owned(),
            secs: 3480,
            tenants: vec![
                tenant("web", [2 * GIB, 3 * GIB], Some([0.81, 0.95])),
                tenant("db", [4 * GIB, 4 * GIB - GIB / 2], Some([0.893, 0.881])),
                tenant("new", [GIB, GIB - GIB / 4], None),
            ],
            free_before: Bytes(GIB / 2),
            free_after: Bytes(GIB / 4),
            hits_before: Some(0.85),
            hits_after: Some(0.91),
        }
    }

    #[test]
    fn what_a_tenant_needs_and_who_pays() {
        let query = WhatIfQuery {
            hits: Some(0.95),
            ..WhatIfQuery::default()
        };
        let web = "web".parse().expect("a name");
        assert_eq!(
            of_tenant(&web, &query, &answer("weights")),
            "web needs 3.00 GiB for 95 % hits; it has 2.00 GiB, with 81.0 % by its curve and 80.0 % counted\n\
             \x20 256 MiB of it are free now\n\
             \x20 db would pay 512 MiB, 1.2 points: 88.1 % hits instead of 89.3 %\n\
             \x20 new would pay 256 MiB, its hits are not measured yet\n\
             \x20 for good: sublet tenants set web --floor 3072MiB\n\
             all tenants: 91.0 % hits instead of 85.0 %, by what the last 58 min asked\n"
        );
    }

    #[test]
    fn no_floor_is_proposed_that_is_below_the_one_in_force() {
        let query = WhatIfQuery {
            memory: Some(Bytes(3 * GIB)),
            ..WhatIfQuery::default()
        };
        let mut answer = answer("weights");
        answer.tenants[0].floor = Bytes(4 * GIB);
        let web = "web".parse().expect("a name");
        assert!(!of_tenant(&web, &query, &answer).contains("--floor"));
    }

    #[test]
    fn hits_are_repeated_as_they_were_asked_for() {
        assert_eq!(as_asked(0.9999), "99.99 %");
        assert_eq!(as_asked(0.95), "95 %");
    }

    #[test]
    fn one_policy_with_other_knobs_has_a_heading_of_its_own() {
        let page = of_policy(&answer("weights"));
        assert!(page.contains("weights, as it is") && page.contains("weights, as asked"));
    }

    #[test]
    fn two_policies_side_by_side() {
        let page = of_policy(&answer("mrc"));
        let rows: Vec<String> = page
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "tenant counted weights hits mrc hits points",
                "web 80.0 % 2.00 GiB 81.0 % 3.00 GiB 95.0 % +14.0",
                "db 80.0 % 4.00 GiB 89.3 % 3.50 GiB 88.1 % -1.2",
                "new 80.0 % 1.00 GiB not measured yet 768 MiB not measured yet –",
                "all 7.00 GiB 85.0 % 7.25 GiB 91.0 % +6.0",
                "free 512 MiB 256 MiB",
                "",
                "mrc instead of weights, which decides now: both replayed by one model over what the last 58 min asked",
            ]
        );
    }
}
