//! A knob's value as it was said, in the file or on the command line, and the readings of it.

use std::path::PathBuf;
use std::time::Duration;

use sublet_types::{
    Bytes, DiskListen, DiskListenError, EvictionKind, EvictionKindError, PAGE_BYTES,
    ParseBytesError, SharedName, SharedNameError, Slow, SlowError, TenantName, TenantNameError,
};
use toml::de::DeValue;

use super::listen::{Listen, ListenError};
use super::nearest::nearest;

/// A value as it was said. On the command line everything is text.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// `"8GiB"`.
    Text(String),
    /// `4`.
    Number(u64),
    /// `["tcp:127.0.0.1:11211"]`.
    List(Vec<String>),
    /// True or false.
    Truth(bool),
    /// What no knob takes: a fraction, a date, a table, true or false.
    Other(&'static str),
}

/// Why a value does not fit its knob.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// A list where a number was due, and the like.
    #[error("wants {wanted}, not {got}")]
    Kind {
        /// What fits.
        wanted: &'static str,
        /// What was said.
        got: &'static str,
    },
    /// No amount of memory.
    #[error("{0}")]
    Amount(#[from] ParseBytesError),
    /// A number outside the range.
    #[error("must be {lowest} to {highest}")]
    Range {
        /// The least that fits.
        lowest: u64,
        /// The most that fits.
        highest: u64,
    },
    /// An amount outside the range.
    #[error("must be {lowest} to {highest}")]
    AmountRange {
        /// The least that fits.
        lowest: Bytes,
        /// The most that fits.
        highest: Bytes,
    },
    /// Not one of the words.
    #[error("{got:?} is none of {}{}", all.join(", "), .nearest.map(|n| format!("; did you mean {n:?}?")).unwrap_or_default())]
    Choice {
        /// What was said.
        got: String,
        /// What fits.
        all: Vec<&'static str>,
        /// The nearest of them.
        nearest: Option<&'static str>,
    },
    /// An eviction that only the simulator has.
    #[error("{0}")]
    Simulated(EvictionKindError),
    /// No name of a shared pool.
    #[error("{0}")]
    SharedName(#[from] SharedNameError),
    /// No place to listen on.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// More places than a tenant or a disk may listen on.
    #[error("lists more than {LISTENERS_MAX} places")]
    TooManyListeners,
    /// No mode of a file.
    #[error("{0:?} is no file mode; write it in octal, such as \"0600\"")]
    Mode(String),
    /// Nowhere to serve a disk.
    #[error("{0}")]
    DiskListen(#[from] DiskListenError),
    /// No slowness.
    #[error("{0}")]
    Slow(#[from] SlowError),
    /// No tenant's name.
    #[error("{0}")]
    Tenant(#[from] TenantNameError),
    /// A path that means another file for every reader.
    #[error("{0:?} does not begin with /")]
    Relative(String),
    /// An amount with a piece of a page.
    #[error("must be whole pages of 4 KiB")]
    NotPages,
    /// No user's number.
    #[error("{0:?} is no user's number; `id -u NAME` tells it")]
    Uid(String),
    /// Nothing where something was due.
    #[error("is empty")]
    Empty,
}

/// The most places one tenant or disk may listen on.
pub(super) const LISTENERS_MAX: usize = 64;

impl Said {
    /// What the file says there.
    pub(crate) fn from_toml(value: &DeValue<'_>) -> Said {
        match value {
            DeValue::String(text) => Said::Text(text.to_string()),
            DeValue::Integer(n) => match u64::from_str_radix(n.as_str(), n.radix()) {
                Ok(number) => Said::Number(number),
                Err(_) => Said::Text(n.to_string()),
            },
            DeValue::Boolean(truth) => Said::Truth(*truth),
            DeValue::Array(items) => {
                let texts = items
                    .iter()
                    .map(|item| match Said::from_toml(item.get_ref()) {
                        Said::Text(text) => Some(text),
                        Said::Number(number) => Some(number.to_string()),
                        _ => None,
                    });
                texts
                    .collect::<Option<_>>()
                    .map_or(Said::Other("a list of other things than text"), Said::List)
            }
            other => Said::Other(other.type_str()),
        }
    }

    /// What a request in JSON says there.
    pub(crate) fn from_json(value: &serde_json::Value) -> Said {
        use serde_json::Value;
        match value {
            Value::String(text) => Said::Text(text.clone()),
            Value::Bool(truth) => Said::Truth(*truth),
            Value::Number(number) => number
                .as_u64()
                .map_or_else(|| Said::Text(number.to_string()), Said::Number),
            Value::Array(items) => {
                let texts = items.iter().map(|item| match Said::from_json(item) {
                    Said::Text(text) => Some(text),
                    Said::Number(number) => Some(number.to_string()),
                    _ => None,
                });
                texts
                    .collect::<Option<_>>()
                    .map_or(Said::Other("a list of other things than text"), Said::List)
            }
            Value::Null => Said::Other("nothing"),
            Value::Object(_) => Said::Other("a table"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Said::Text(_) => "text",
            Said::Number(_) => "a number",
            Said::List(_) => "a list",
            Said::Truth(_) => "a boolean",
            Said::Other(kind) => kind,
        }
    }

    fn unfit<T>(&self, wanted: &'static str) -> Result<T, Unfit> {
        Err(Unfit::Kind {
            wanted,
            got: self.kind(),
        })
    }

    /// Text with something in it.
    pub fn text(&self) -> Result<String, Unfit> {
        match self {
            Said::Text(text) if text.trim().is_empty() => Err(Unfit::Empty),
            Said::Text(text) => Ok(text.clone()),
            _ => self.unfit("text"),
        }
    }

    /// A path.
    pub fn path(&self) -> Result<PathBuf, Unfit> {
        self.text().map(PathBuf::from)
    }

    /// A Unix socket's path, with or without `unix:`.
    pub fn socket(&self) -> Result<PathBuf, Unfit> {
        let place = self.text()?;
        match place.starts_with("tcp:") {
            true => self.unfit("a path (the interface over TCP is `admin.tcp`)"),
            false => Ok(place.strip_prefix("unix:").unwrap_or(&place).into()),
        }
    }

    /// An amount of memory.
    pub fn amount(&self) -> Result<Bytes, Unfit> {
        match self {
            Said::Number(bytes) => Ok(Bytes(*bytes)),
            Said::Text(text) => Ok(text.parse()?),
            _ => self.unfit("an amount such as \"2GiB\""),
        }
    }

    /// An amount, or `word` for its absence.
    pub(crate) fn amount_or(&self, word: &str) -> Result<Option<Bytes>, Unfit> {
        match self {
            Said::Text(text) if text == word => Ok(None),
            _ => self.amount().map(Some),
        }
    }

    /// An amount from `lowest` to `highest`.
    pub(crate) fn amount_in(&self, lowest: Bytes, highest: Bytes) -> Result<Bytes, Unfit> {
        let amount = self.amount()?;
        match lowest <= amount && amount <= highest {
            true => Ok(amount),
            false => Err(Unfit::AmountRange { lowest, highest }),
        }
    }

    /// A number from `lowest` to `highest`.
    pub fn count(&self, lowest: u64, highest: u64) -> Result<u64, Unfit> {
        let number = match self {
            Said::Number(number) => Some(*number),
            Said::Text(text) if text.starts_with('-') => None,
            Said::Text(text) => match text.parse() {
                Ok(number) => Some(number),
                Err(_) => return self.unfit("a number"),
            },
            _ => return self.unfit("a number"),
        };
        number
            .filter(|n| (lowest..=highest).contains(n))
            .ok_or(Unfit::Range { lowest, highest })
    }

    /// A number from `lowest` to `highest`, or `word` for its absence.
    pub(crate) fn count_or(
        &self,
        word: &str,
        lowest: u64,
        highest: u64,
    ) -> Result<Option<u64>, Unfit> {
        match self {
            Said::Text(text) if text == word => Ok(None),
            _ => self.count(lowest, highest).map(Some),
        }
    }

    /// Whole seconds, 0 for never.
    pub fn seconds(&self) -> Result<Option<Duration>, Unfit> {
        const YEAR_SECS: u64 = 365 * 86_400;
        let secs = self.count(0, YEAR_SECS)?;
        Ok((secs > 0).then(|| Duration::from_secs(secs)))
    }

    /// One of the words.
    pub fn choice(&self, all: &'static [&'static str]) -> Result<&'static str, Unfit> {
        let got = self.text()?;
        let found = all.iter().copied().find(|word| *word == got);
        found.ok_or_else(|| none_of(got, all.iter().copied()))
    }

    /// What one of the words stands for.
    pub fn named<T: Copy>(&self, all: &'static [(&'static str, T)]) -> Result<T, Unfit> {
        let got = self.text()?;
        let found = all.iter().find(|(word, _)| *word == got);
        found
            .map(|(_, meant)| *meant)
            .ok_or_else(|| none_of(got, all.iter().map(|(word, _)| *word)))
    }

    /// A tenant's name.
    pub fn tenant(&self) -> Result<TenantName, Unfit> {
        Ok(self.text()?.parse()?)
    }

    /// A path that means the same file for every reader.
    pub fn absolute(&self) -> Result<String, Unfit> {
        let path = self.text()?;
        match path.starts_with('/') {
            true => Ok(path),
            false => Err(Unfit::Relative(path)),
        }
    }

    /// Folders; none at all may be meant.
    pub fn folders(&self) -> Result<Vec<PathBuf>, Unfit> {
        let Said::List(paths) = self else {
            return Ok(vec![self.absolute()?.into()]);
        };
        let absolute = |path: &String| Said::Text(path.clone()).absolute().map(PathBuf::from);
        paths.iter().map(absolute).collect()
    }

    /// An amount from `lowest` to `highest`, in whole pages.
    pub(crate) fn pages_in(&self, lowest: Bytes, highest: Bytes) -> Result<Bytes, Unfit> {
        let amount = self.amount_in(lowest, highest)?;
        match amount.0 % PAGE_BYTES {
            0 => Ok(amount),
            _ => Err(Unfit::NotPages),
        }
    }

    /// How slow a disk is made.
    pub fn slow(&self) -> Result<Slow, Unfit> {
        Ok(self.text()?.parse()?)
    }

    /// Places to serve a disk at.
    pub(crate) fn disk_listeners(&self) -> Result<Vec<DiskListen>, Unfit> {
        let places: Vec<DiskListen> = match self {
            Said::Text(text) => vec![text.parse()?],
            Said::List(texts) => texts
                .iter()
                .map(|text| text.parse())
                .collect::<Result<_, _>>()?,
            _ => return self.unfit("a list such as [\"unix:/run/sublet/db.sock\"]"),
        };
        match places.len() {
            0 => Err(Unfit::Empty),
            n if n > LISTENERS_MAX => Err(Unfit::TooManyListeners),
            _ => Ok(places),
        }
    }

    /// A place to listen on for something that is said in bytes.
    pub fn listen(&self) -> Result<Listen, Unfit> {
        match self.text()?.parse()? {
            ring @ Listen::Ring(_) => Err(ListenError::NoRing(ring.to_string()).into()),
            place => Ok(place),
        }
    }

    /// An eviction by its name.
    pub fn eviction(&self) -> Result<EvictionKind, Unfit> {
        let text = self.text()?;
        let names = EvictionKind::ALL.iter().map(|(_, name, _)| *name);
        text.parse().map_err(|error| match error {
            EvictionKindError::Unknown(_) => none_of(text, names),
            EvictionKindError::Simulated(_) => Unfit::Simulated(error),
        })
    }

    /// The name of a shared pool.
    pub fn shared_name(&self) -> Result<SharedName, Unfit> {
        Ok(self.text()?.parse()?)
    }

    /// Users by their numbers.
    pub(crate) fn uids(&self) -> Result<Vec<u32>, Unfit> {
        let all: Vec<String> = match self {
            Said::Number(uid) => vec![uid.to_string()],
            _ => self.names()?,
        };
        let uid = |text: &String| text.parse().map_err(|_| Unfit::Uid(text.clone()));
        all.iter().map(uid).collect()
    }

    /// Places to listen on.
    pub fn listeners(&self) -> Result<Vec<Listen>, Unfit> {
        let places: Vec<Listen> = match self {
            Said::Text(text) => text.split(',').map(str::parse).collect::<Result<_, _>>()?,
            Said::List(texts) => texts
                .iter()
                .map(|text| text.parse())
                .collect::<Result<_, _>>()?,
            _ => return self.unfit("a list such as [\"tcp:127.0.0.1:11211\"]"),
        };
        match places.len() {
            0 => Err(Unfit::Empty),
            n if n > LISTENERS_MAX => Err(Unfit::TooManyListeners),
            _ => Ok(places),
        }
    }

    /// What is logged: a level, or a filter of targets and levels.
    pub(crate) fn log_filter(&self) -> Result<String, Unfit> {
        const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace", "off"];
        let text = self.text()?;
        let is_plain =
            |part: &str| !part.contains(|c: char| "[]{}\"".contains(c) || c.is_whitespace());
        let is_level = |level: &str| LEVELS.iter().any(|one| level.eq_ignore_ascii_case(one));
        let is_filter = |part: &str| match part.split_once('=') {
            Some((target, level)) => is_plain(target) && is_level(level),
            None => is_level(part) || is_plain(part) && part.starts_with("sublet"),
        };
        let mut parts = text.split(',').map(str::trim);
        let unknown = parts.find(|part| !is_filter(part));
        match unknown {
            None => Ok(text),
            Some(part) => Err(none_of(part.to_owned(), LEVELS.iter().copied())),
        }
    }

    /// Names, at least one.
    pub fn names(&self) -> Result<Vec<String>, Unfit> {
        let names: Vec<String> = match self {
            Said::Text(name) => vec![name.clone()],
            Said::List(names) => names.clone(),
            _ => return self.unfit("a list such as [\"alice\"]"),
        };
        match names.iter().all(|name| !name.is_empty()) && !names.is_empty() {
            true => Ok(names),
            false => Err(Unfit::Empty),
        }
    }

    /// True or false.
    pub fn truth(&self) -> Result<bool, Unfit> {
        match self {
            Said::Truth(truth) => Ok(*truth),
            Said::Text(text) if text == "true" || text == "false" => Ok(text == "true"),
            _ => self.unfit("true or false"),
        }
    }

    /// A file's mode, in octal text.
    pub fn mode(&self) -> Result<u32, Unfit> {
        let text = self.text()?;
        match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
            Ok(mode) if mode <= 0o777 => Ok(mode),
            _ => Err(Unfit::Mode(text)),
        }
    }
}

fn none_of(got: String, all: impl Iterator<Item = &'static str> + Clone) -> Unfit {
    Unfit::Choice {
        nearest: nearest(&got, all.clone()),
        all: all.collect(),
        got,
    }
}
