//! A knob's value as it was written, in the file or on the command line, and the ways to read it.

use std::path::PathBuf;
use std::time::Duration;

use sublet_etcd::gateway::{ENDPOINTS_MAX, EndpointError};
use sublet_lend::node::MEMBERS_MAX;
use sublet_policy::placement::catalogue::PlacementChoiceError;
use sublet_tls::peer::{DENIED_MAX, FingerprintError};
use sublet_types::{
    Bytes, ClusterNameError, DiskListen, DiskListenError, EvictionKind, EvictionKindError,
    NodeNameError, PAGE_BYTES, ParseBytesError, SharedName, SharedNameError, SlowBacking,
    SlowBackingError, TenantName, TenantNameError,
};
use toml::de::DeValue;

use super::listen::{ListenAddress, ListenAddressError};
use super::member::PeerMemberError;
use super::nearest::nearest;
use super::peer_place::PeerPlaceError;

/// A value as it was written. On the command line everything is text.
#[derive(Clone, Debug, PartialEq)]
pub enum RawValue {
    /// `"8GiB"`.
    Text(String),
    /// `4`.
    Number(u64),
    /// `["tcp:127.0.0.1:11211"]`.
    List(Vec<String>),
    /// True or false.
    Bool(bool),
    /// A value that no knob takes: a fraction, a date or a table.
    Other(&'static str),
}

/// Why a value does not fit its knob.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// The value has the wrong type, such as a list for a number.
    #[error("wants {wanted}, not {got}")]
    Kind {
        /// What fits.
        wanted: &'static str,
        /// What was said.
        got: &'static str,
    },
    /// It is not an amount of memory.
    #[error("{0}")]
    Amount(#[from] ParseBytesError),
    /// It is a number outside the range.
    #[error("must be {lowest} to {highest}")]
    Range {
        /// The least that fits.
        lowest: u64,
        /// The most that fits.
        highest: u64,
    },
    /// It is an amount outside the range.
    #[error("must be {lowest} to {highest}")]
    AmountRange {
        /// The least that fits.
        lowest: Bytes,
        /// The most that fits.
        highest: Bytes,
    },
    /// It is not a percentage.
    #[error("{0:?} is no percentage; write a whole number and %, such as \"50%\"")]
    Percent(String),
    /// It is a percentage outside the range.
    #[error("must be {lowest}% to {highest}%")]
    PercentRange {
        /// The least that fits.
        lowest: u64,
        /// The most that fits.
        highest: u64,
    },
    /// It is not one of the words.
    #[error("{got:?} is none of {}{}", all.join(", "), .nearest.map(|n| format!("; did you mean {n:?}?")).unwrap_or_default())]
    Choice {
        /// What was said.
        got: String,
        /// What fits.
        all: Vec<&'static str>,
        /// The nearest of them.
        nearest: Option<&'static str>,
    },
    /// It is an eviction that only the simulator has.
    #[error("{0}")]
    Simulated(EvictionKindError),
    /// It is not the name of a shared pool.
    #[error("{0}")]
    SharedName(#[from] SharedNameError),
    /// It is not the name of a rack.
    #[error(
        "{0:?} is no name for a rack: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit"
    )]
    Rack(String),
    /// It is not a place to listen on.
    #[error("{0}")]
    Listen(#[from] ListenAddressError),
    /// It lists more places than a tenant or a disk may listen on.
    #[error("lists more than {LISTENERS_MAX} places")]
    TooManyListeners,
    /// It is not a file mode.
    #[error("{0:?} is no file mode; write it in octal, such as \"0600\"")]
    Mode(String),
    /// It is not a place to serve a disk at.
    #[error("{0}")]
    DiskListen(#[from] DiskListenError),
    /// No slowness.
    #[error("{0}")]
    Slow(#[from] SlowBackingError),
    /// It is not a tenant's name.
    #[error("{0}")]
    Tenant(#[from] TenantNameError),
    /// It is a path that means another file for every reader.
    #[error("{0:?} does not begin with /")]
    Relative(String),
    /// It is an amount with a part of a page.
    #[error("must be whole pages of 4 KiB")]
    NotPages,
    /// It is not a user's number.
    #[error("{0:?} is not a user's number; `id -u NAME` prints it")]
    Uid(String),
    /// It is not a node's name.
    #[error("{0}")]
    Node(#[from] NodeNameError),
    /// It is not a cluster's name.
    #[error("{0}")]
    Cluster(#[from] ClusterNameError),
    /// Peers cannot listen there.
    #[error("{0}")]
    PeerPlace(#[from] PeerPlaceError),
    /// It is not a member of a cluster.
    #[error("{0}")]
    Member(#[from] PeerMemberError),
    /// It lists more members than a node has peers.
    #[error("lists more than {MEMBERS_MAX} members")]
    TooManyMembers,
    /// It is no placement policy.
    #[error("{0}")]
    Placement(#[from] PlacementChoiceError),
    /// It is no address of etcd.
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
    /// It lists more members of etcd than are asked.
    #[error("lists more than {ENDPOINTS_MAX} addresses")]
    TooManyEndpoints,
    /// It names nobody who may borrow.
    #[error("names nobody; to lend nothing, write `max = 0` instead")]
    NoBorrower,
    /// It is not a certificate's fingerprint.
    #[error("{0}")]
    Fingerprint(#[from] FingerprintError),
    /// It lists more fingerprints than a node refuses.
    #[error("lists more than {DENIED_MAX} fingerprints; leave out certificates that have expired")]
    TooManyFingerprints,
    /// It is empty.
    #[error("is empty")]
    Empty,
}

/// The most places one tenant or disk may listen on.
pub(super) const LISTENERS_MAX: usize = 64;

impl RawValue {
    /// The value that a TOML file has.
    pub(crate) fn from_toml(value: &DeValue<'_>) -> RawValue {
        match value {
            DeValue::String(text) => RawValue::Text(text.to_string()),
            DeValue::Integer(n) => match u64::from_str_radix(n.as_str(), n.radix()) {
                Ok(number) => RawValue::Number(number),
                Err(_) => RawValue::Text(n.to_string()),
            },
            DeValue::Boolean(truth) => RawValue::Bool(*truth),
            DeValue::Array(items) => {
                let texts = items
                    .iter()
                    .map(|item| match RawValue::from_toml(item.get_ref()) {
                        RawValue::Text(text) => Some(text),
                        RawValue::Number(number) => Some(number.to_string()),
                        _ => None,
                    });
                texts.collect::<Option<_>>().map_or(
                    RawValue::Other("a list of other things than text"),
                    RawValue::List,
                )
            }
            other => RawValue::Other(other.type_str()),
        }
    }

    /// The value that a JSON request has.
    pub(crate) fn from_json(value: &serde_json::Value) -> RawValue {
        use serde_json::Value;
        match value {
            Value::String(text) => RawValue::Text(text.clone()),
            Value::Bool(truth) => RawValue::Bool(*truth),
            Value::Number(number) => number
                .as_u64()
                .map_or_else(|| RawValue::Text(number.to_string()), RawValue::Number),
            Value::Array(items) => {
                let texts = items.iter().map(|item| match RawValue::from_json(item) {
                    RawValue::Text(text) => Some(text),
                    RawValue::Number(number) => Some(number.to_string()),
                    _ => None,
                });
                texts.collect::<Option<_>>().map_or(
                    RawValue::Other("a list of other things than text"),
                    RawValue::List,
                )
            }
            Value::Null => RawValue::Other("nothing"),
            Value::Object(_) => RawValue::Other("a table"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            RawValue::Text(_) => "text",
            RawValue::Number(_) => "a number",
            RawValue::List(_) => "a list",
            RawValue::Bool(_) => "a boolean",
            RawValue::Other(kind) => kind,
        }
    }

    fn wrong_kind<T>(&self, wanted: &'static str) -> Result<T, ValueError> {
        Err(ValueError::Kind {
            wanted,
            got: self.kind(),
        })
    }

    /// Text that is not empty.
    pub fn text(&self) -> Result<String, ValueError> {
        match self {
            RawValue::Text(text) if text.trim().is_empty() => Err(ValueError::Empty),
            RawValue::Text(text) => Ok(text.clone()),
            _ => self.wrong_kind("text"),
        }
    }

    /// A path.
    pub fn path(&self) -> Result<PathBuf, ValueError> {
        self.text().map(PathBuf::from)
    }

    /// A Unix socket's path, with or without `unix:`.
    pub fn socket(&self) -> Result<PathBuf, ValueError> {
        let place = self.text()?;
        match place.starts_with("tcp:") {
            true => self.wrong_kind("a path (the interface over TCP is `admin.tcp`)"),
            false => Ok(place.strip_prefix("unix:").unwrap_or(&place).into()),
        }
    }

    /// An amount of memory.
    pub fn amount(&self) -> Result<Bytes, ValueError> {
        match self {
            RawValue::Number(bytes) => Ok(Bytes(*bytes)),
            RawValue::Text(text) => Ok(text.parse()?),
            _ => self.wrong_kind("an amount such as \"2GiB\""),
        }
    }

    /// An amount, or `word` for its absence.
    pub(crate) fn amount_or(&self, word: &str) -> Result<Option<Bytes>, ValueError> {
        match self {
            RawValue::Text(text) if text == word => Ok(None),
            _ => self.amount().map(Some),
        }
    }

    /// An amount from `lowest` to `highest`.
    pub(crate) fn amount_in(&self, lowest: Bytes, highest: Bytes) -> Result<Bytes, ValueError> {
        let amount = self.amount()?;
        match lowest <= amount && amount <= highest {
            true => Ok(amount),
            false => Err(ValueError::AmountRange { lowest, highest }),
        }
    }

    /// An amount from `lowest` to `highest`, or `word` for its absence.
    pub(crate) fn amount_in_or(
        &self,
        word: &str,
        lowest: Bytes,
        highest: Bytes,
    ) -> Result<Option<Bytes>, ValueError> {
        match self {
            RawValue::Text(text) if text == word => Ok(None),
            _ => self.amount_in(lowest, highest).map(Some),
        }
    }

    /// A percentage from `lowest` to `highest`, as a whole number and `%`.
    pub(crate) fn percent(&self, lowest: u64, highest: u64) -> Result<u64, ValueError> {
        let text = match self {
            RawValue::Text(text) => text.clone(),
            RawValue::Number(number) => number.to_string(),
            _ => return self.wrong_kind("a percentage such as \"50%\""),
        };
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        let number = number.and_then(|number| number.parse::<i64>().ok());
        let number = number.ok_or(ValueError::Percent(text))?;
        u64::try_from(number)
            .ok()
            .filter(|percent| (lowest..=highest).contains(percent))
            .ok_or(ValueError::PercentRange { lowest, highest })
    }

    /// A number from `lowest` to `highest`.
    pub fn count(&self, lowest: u64, highest: u64) -> Result<u64, ValueError> {
        let number = match self {
            RawValue::Number(number) => Some(*number),
            RawValue::Text(text) if text.starts_with('-') => None,
            RawValue::Text(text) => match text.parse() {
                Ok(number) => Some(number),
                Err(_) => return self.wrong_kind("a number"),
            },
            _ => return self.wrong_kind("a number"),
        };
        number
            .filter(|n| (lowest..=highest).contains(n))
            .ok_or(ValueError::Range { lowest, highest })
    }

    /// A number from `lowest` to `highest`, or `word` for its absence.
    pub(crate) fn count_or(
        &self,
        word: &str,
        lowest: u64,
        highest: u64,
    ) -> Result<Option<u64>, ValueError> {
        match self {
            RawValue::Text(text) if text == word => Ok(None),
            _ => self.count(lowest, highest).map(Some),
        }
    }

    /// Whole seconds, 0 for never.
    pub fn seconds(&self) -> Result<Option<Duration>, ValueError> {
        const YEAR_SECS: u64 = 365 * 86_400;
        let secs = self.count(0, YEAR_SECS)?;
        Ok((secs > 0).then(|| Duration::from_secs(secs)))
    }

    /// One of the words.
    pub fn choice(&self, all: &'static [&'static str]) -> Result<&'static str, ValueError> {
        let got = self.text()?;
        let found = all.iter().copied().find(|word| *word == got);
        found.ok_or_else(|| invalid_choice(got, all.iter().copied()))
    }

    /// The value that one of the words stands for.
    pub fn named_choice<T: Copy>(
        &self,
        all: &'static [(&'static str, T)],
    ) -> Result<T, ValueError> {
        let got = self.text()?;
        let found = all.iter().find(|(word, _)| *word == got);
        found
            .map(|(_, meant)| *meant)
            .ok_or_else(|| invalid_choice(got, all.iter().map(|(word, _)| *word)))
    }

    /// A tenant's name.
    pub fn tenant(&self) -> Result<TenantName, ValueError> {
        Ok(self.text()?.parse()?)
    }

    /// A path that means the same file for every reader.
    pub fn absolute(&self) -> Result<String, ValueError> {
        let path = self.text()?;
        match path.starts_with('/') {
            true => Ok(path),
            false => Err(ValueError::Relative(path)),
        }
    }

    /// Folders. An empty list is allowed.
    pub fn folders(&self) -> Result<Vec<PathBuf>, ValueError> {
        let RawValue::List(paths) = self else {
            return Ok(vec![self.absolute()?.into()]);
        };
        let absolute = |path: &String| RawValue::Text(path.clone()).absolute().map(PathBuf::from);
        paths.iter().map(absolute).collect()
    }

    /// An amount from `lowest` to `highest`, in whole pages.
    pub(crate) fn pages_in(&self, lowest: Bytes, highest: Bytes) -> Result<Bytes, ValueError> {
        let amount = self.amount_in(lowest, highest)?;
        match amount.0 % PAGE_BYTES {
            0 => Ok(amount),
            _ => Err(ValueError::NotPages),
        }
    }

    /// How slow a disk is made.
    pub fn slow(&self) -> Result<SlowBacking, ValueError> {
        Ok(self.text()?.parse()?)
    }

    /// Places to serve a disk at.
    pub(crate) fn disk_listeners(&self) -> Result<Vec<DiskListen>, ValueError> {
        let places: Vec<DiskListen> = match self {
            RawValue::Text(text) => vec![text.parse()?],
            RawValue::List(texts) => texts
                .iter()
                .map(|text| text.parse())
                .collect::<Result<_, _>>()?,
            _ => return self.wrong_kind("a list such as [\"unix:/run/sublet/db.sock\"]"),
        };
        match places.len() {
            0 => Err(ValueError::Empty),
            n if n > LISTENERS_MAX => Err(ValueError::TooManyListeners),
            _ => Ok(places),
        }
    }

    /// A place to listen on for a protocol of bytes.
    pub fn listen(&self) -> Result<ListenAddress, ValueError> {
        match self.text()?.parse()? {
            ring @ ListenAddress::Ring(_) => {
                Err(ListenAddressError::NoRing(ring.to_string()).into())
            }
            place => Ok(place),
        }
    }

    /// An eviction by its name.
    pub fn eviction(&self) -> Result<EvictionKind, ValueError> {
        let text = self.text()?;
        let names = EvictionKind::ALL.iter().map(|(_, name, _)| *name);
        text.parse().map_err(|error| match error {
            EvictionKindError::Unknown(_) => invalid_choice(text, names),
            EvictionKindError::Simulated(_) => ValueError::Simulated(error),
        })
    }

    /// The name of a shared pool.
    pub fn shared_name(&self) -> Result<SharedName, ValueError> {
        Ok(self.text()?.parse()?)
    }

    /// Users by their numbers.
    pub(crate) fn uids(&self) -> Result<Vec<u32>, ValueError> {
        let all: Vec<String> = match self {
            RawValue::Number(uid) => vec![uid.to_string()],
            _ => self.names()?,
        };
        let uid = |text: &String| text.parse().map_err(|_| ValueError::Uid(text.clone()));
        all.iter().map(uid).collect()
    }

    /// Places to listen on.
    pub fn listeners(&self) -> Result<Vec<ListenAddress>, ValueError> {
        let places: Vec<ListenAddress> = match self {
            RawValue::Text(text) => text.split(',').map(str::parse).collect::<Result<_, _>>()?,
            RawValue::List(texts) => texts
                .iter()
                .map(|text| text.parse())
                .collect::<Result<_, _>>()?,
            _ => return self.wrong_kind("a list such as [\"tcp:127.0.0.1:11211\"]"),
        };
        match places.len() {
            0 => Err(ValueError::Empty),
            n if n > LISTENERS_MAX => Err(ValueError::TooManyListeners),
            _ => Ok(places),
        }
    }

    /// What is logged: a level, or a filter of targets and levels.
    pub(crate) fn log_filter(&self) -> Result<String, ValueError> {
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
            Some(part) => Err(invalid_choice(part.to_owned(), LEVELS.iter().copied())),
        }
    }

    /// Names, at least one.
    pub fn names(&self) -> Result<Vec<String>, ValueError> {
        let names: Vec<String> = match self {
            RawValue::Text(name) => vec![name.clone()],
            RawValue::List(names) => names.clone(),
            _ => return self.wrong_kind("a list such as [\"alice\"]"),
        };
        match names.iter().all(|name| !name.is_empty()) && !names.is_empty() {
            true => Ok(names),
            false => Err(ValueError::Empty),
        }
    }

    /// True or false.
    pub fn boolean(&self) -> Result<bool, ValueError> {
        match self {
            RawValue::Bool(truth) => Ok(*truth),
            RawValue::Text(text) if text == "true" || text == "false" => Ok(text == "true"),
            _ => self.wrong_kind("true or false"),
        }
    }

    /// A file's mode, in octal text.
    pub fn mode(&self) -> Result<u32, ValueError> {
        let text = self.text()?;
        match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
            Ok(mode) if mode <= 0o777 => Ok(mode),
            _ => Err(ValueError::Mode(text)),
        }
    }
}

fn invalid_choice(got: String, all: impl Iterator<Item = &'static str> + Clone) -> ValueError {
    ValueError::Choice {
        nearest: nearest(&got, all.clone()),
        all: all.collect(),
        got,
    }
}
