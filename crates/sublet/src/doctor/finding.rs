//! One finding of the doctor, and how it is shown.

use std::fmt;

use serde::Serialize;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Ok,
    Warn,
    Bad,
}

/// One check: what it found. If that is not well, why it matters and what to type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Severity,
    pub(super) found: String,
    pub(super) why: &'static str,
    #[serde(rename = "type")]
    pub(super) remedy: &'static str,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            verdict: Severity::Ok,
            found: found.into(),
            why: "",
            remedy: "",
        }
    }

    pub(super) fn warn(self, why: &'static str, remedy: &'static str) -> Finding {
        let verdict = Severity::Warn;
        Finding {
            verdict,
            why,
            remedy,
            ..self
        }
    }

    pub(super) fn bad(self, why: &'static str, remedy: &'static str) -> Finding {
        let verdict = Severity::Bad;
        Finding {
            verdict,
            why,
            remedy,
            ..self
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Severity::Ok => "OK",
            Severity::Warn => "WARN",
            Severity::Bad => "BAD",
        };
        writeln!(f, "{verdict:<5} {:<20} {}", self.check, self.found)?;
        if !self.why.is_empty() {
            writeln!(f, "      {}", self.why)?;
        }
        if !self.remedy.is_empty() {
            writeln!(f, "      type: {}", self.remedy)?;
        }
        Ok(())
    }
}
