//! The decision log: why a tenant may hold what it may. A day of it, or 16 MiB, whichever is less.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sublet_policy::explain::Explanation;
use sublet_types::{Bytes, TenantName};

/// Decisions are forgotten after a day.
const KEPT_SECS: u64 = 86_400;

/// What the log may take.
const KEPT: Bytes = Bytes::mib(16);

/// One decision about one tenant.
#[derive(Clone, Debug)]
pub struct Made {
    /// When, in Unix seconds.
    pub at: u64,
    /// By which policy.
    pub policy: &'static str,
    /// About whom.
    pub tenant: TenantName,
    /// What, and why.
    pub explanation: Explanation,
}

impl Made {
    fn bytes(&self) -> u64 {
        (size_of::<Made>() + self.tenant.as_str().len()) as u64
    }

    /// As a line of JSON.
    fn line(&self) -> String {
        let pages = |pages: Option<sublet_types::Pages>| pages.map(|pages| pages.0);
        let explanation = &self.explanation;
        let line = serde_json::json!({
            "at": self.at,
            "policy": self.policy,
            "tenant": self.tenant,
            "pages_before": pages(explanation.before),
            "pages_after": pages(explanation.after),
            "why": explanation.reason,
            "bound": explanation.bound,
        });
        format!("{line}\n")
    }
}

/// The log.
pub struct Decisions {
    made: VecDeque<Made>,
    bytes: u64,
    file: Option<File>,
}

impl Decisions {
    /// An empty log; what is added goes to `file`, too, one JSON object a line.
    pub fn new(file: Option<&Path>) -> io::Result<Decisions> {
        let open = |path| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(path)
        };
        Ok(Decisions {
            made: VecDeque::new(),
            bytes: 0,
            file: file.map(open).transpose()?,
        })
    }

    /// Adds a decision.
    pub fn add(
        &mut self,
        at: u64,
        policy: &'static str,
        tenant: &TenantName,
        explanation: &Explanation,
    ) {
        let made = Made {
            at,
            policy,
            tenant: tenant.clone(),
            explanation: *explanation,
        };
        self.write(&made);
        self.bytes += made.bytes();
        self.made.push_back(made);
        self.forget(at);
    }

    /// A file that cannot be written is not tried again.
    fn write(&mut self, made: &Made) {
        let Some(file) = &mut self.file else {
            return;
        };
        if let Err(error) = file.write_all(made.line().as_bytes()) {
            tracing::error!(%error, "the decision log cannot be written; it goes on in memory only");
            self.file = None;
        }
    }

    fn forget(&mut self, now: u64) {
        while let Some(oldest) = self.made.front() {
            let old = oldest.at + KEPT_SECS < now;
            if !old && self.bytes <= KEPT.0 {
                break;
            }
            self.bytes -= oldest.bytes();
            self.made.pop_front();
        }
    }

    /// Decisions about a tenant until `until`, the latest first.
    pub fn about(&self, tenant: &TenantName, until: u64, most: usize) -> Vec<Made> {
        let about = self.made.iter().rev();
        let about = about.filter(|made| made.tenant == *tenant && made.at <= until);
        about.take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use sublet_policy::explain::Reason;
    use sublet_types::{Pages, TenantId};

    use super::*;

    fn change(to: u64) -> Explanation {
        Explanation {
            id: TenantId(1),
            before: Some(Pages(1)),
            after: Some(Pages(to)),
            reason: Reason::EqualShare { tenants: 2 },
            bound: None,
        }
    }

    #[test]
    fn it_tells_what_was_decided_until_then_and_forgets_after_a_day() {
        let ann: TenantName = "ann".parse().expect("a name");
        let ben: TenantName = "ben".parse().expect("a name");
        let mut log = Decisions::new(None).expect("no file");
        log.add(100, "static-alloc", &ann, &change(5));
        log.add(200, "static-alloc", &ben, &change(6));
        log.add(300, "static-alloc", &ann, &change(7));
        let about = |log: &Decisions, until| -> Vec<u64> {
            log.about(&ann, until, 10)
                .iter()
                .map(|made| made.at)
                .collect()
        };
        assert_eq!(about(&log, 299), [100]);
        assert_eq!(about(&log, 300), [300, 100]);
        log.add(100 + KEPT_SECS + 1, "static-alloc", &ben, &change(8));
        assert_eq!(about(&log, u64::MAX), [300]);
    }

    #[test]
    fn it_never_takes_more_than_its_bound() {
        let ann: TenantName = "ann".parse().expect("a name");
        let mut log = Decisions::new(None).expect("no file");
        for at in 0..200_000 {
            log.add(at / 100, "greedy", &ann, &change(at));
        }
        assert!(log.bytes <= KEPT.0);
        assert_eq!(log.about(&ann, u64::MAX, 1)[0].at, 1999);
    }

    #[test]
    fn a_file_gets_every_decision_as_a_line_of_json() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("decisions.jsonl");
        let mut log = Decisions::new(Some(&path)).expect("a file");
        log.add(
            1,
            "static-alloc",
            &"ann".parse().expect("a name"),
            &change(5),
        );
        let text = std::fs::read_to_string(&path).expect("written");
        let line: serde_json::Value = serde_json::from_str(text.trim()).expect("JSON");
        assert_eq!(line["tenant"], "ann");
        assert_eq!(line["pages_after"], 5);
        assert_eq!(line["why"]["reason"], "equal-share");
    }
}
