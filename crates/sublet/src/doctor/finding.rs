//! One finding of the doctor, and how it is shown.

use std::fmt;

use serde::Serialize;

/// How well a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Bad,
}

/// One check: what was found, and where it is not well, why that matters and what to type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    pub(super) why: &'static str,
    #[serde(rename = "type")]
    pub(super) remedy: &'static str,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            verdict: Verdict::Ok,
            found: found.into(),
            why: "",
            remedy: "",
        }
    }

    pub(super) fn warn(self, why: &'static str, remedy: &'static str) -> Finding {
        let verdict = Verdict::Warn;
        Finding {
            verdict,
            why,
            remedy,
            ..self
        }
    }

    pub(super) fn bad(self, why: &'static str, remedy: &'static str) -> Finding {
        let verdict = Verdict::Bad;
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
            Verdict::Ok => "OK",
            Verdict::Warn => "WARN",
            Verdict::Bad => "BAD",
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
