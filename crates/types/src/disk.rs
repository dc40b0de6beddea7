//! What the host's owner says of a disk.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, TenantName, TenantNameError};

/// A disk's name, and its name as an NBD export: spelled as a tenant's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskName(TenantName);

impl DiskName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for DiskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a disk's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a disk: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit"
)]
pub struct DiskNameError(pub String);

impl FromStr for DiskName {
    type Err = DiskNameError;

    fn from_str(text: &str) -> Result<DiskName, DiskNameError> {
        let named = text.parse();
        named
            .map(DiskName)
            .map_err(|TenantNameError(text)| DiskNameError(text))
    }
}

/// What a disk is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// Files: memory holds a second copy of what the backing has.
    #[default]
    Disk,
    /// Swap: memory is where pages go, the backing where they find room when memory is short.
    Swap,
}

impl DiskKind {
    /// Each, by its name.
    pub const ALL: [(&'static str, DiskKind); 2] =
        [("disk", DiskKind::Disk), ("swap", DiskKind::Swap)];
}

impl fmt::Display for DiskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_in(&DiskKind::ALL, self))
    }
}

/// When a write is safe, and from what (`docs/disks.md` has the table).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Acknowledged from memory; lost with the daemon.
    Memory,
    /// Acknowledged from memory that outlives the daemon; written to the backing in the background.
    WriteBehind,
    /// Acknowledged when the backing has it.
    WriteThrough,
}

impl Durability {
    /// Each, by its name.
    pub const ALL: [(&'static str, Durability); 3] = [
        ("memory", Durability::Memory),
        ("write-behind", Durability::WriteBehind),
        ("write-through", Durability::WriteThrough),
    ];

    /// What holds for a kind of disk where nothing is said.
    pub fn usual(kind: DiskKind) -> Durability {
        match kind {
            DiskKind::Disk => Durability::WriteThrough,
            DiskKind::Swap => Durability::WriteBehind,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_in(&Durability::ALL, self))
    }
}

/// Which pages that were read from the backing are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Every one.
    Miss,
    /// One that is missed a second time.
    #[default]
    SecondMiss,
    /// Every one, until it is read from memory: the guest has it then.
    DropOnRead,
}

impl Fill {
    /// Each, by its name.
    pub const ALL: [(&'static str, Fill); 3] = [
        ("miss", Fill::Miss),
        ("second-miss", Fill::SecondMiss),
        ("drop-on-read", Fill::DropOnRead),
    ];
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_in(&Fill::ALL, self))
    }
}

/// What leaves memory with a page of a disk that is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Windows {
    /// Nothing.
    #[default]
    Pages,
    /// The rest of its window.
    Whole,
}

impl Windows {
    /// Each, by its name.
    pub const ALL: [(&'static str, Windows); 2] =
        [("pages", Windows::Pages), ("whole", Windows::Whole)];
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_in(&Windows::ALL, self))
    }
}

fn name_in<T: PartialEq>(all: &[(&'static str, T)], wanted: &T) -> &'static str {
    let named = all.iter().find(|(_, one)| one == wanted);
    named.map_or("", |(name, _)| name)
}

/// A backing that is made slower than it is, for experiments. Written `4ms`, `100MiB/s` or `4ms, 100MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slow {
    /// Added to each request.
    pub latency: Duration,
    /// Bytes a second, at the most.
    pub bandwidth: Option<Bytes>,
}

/// Why that is no slowness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not say how slow: write a latency up to 60s, a bandwidth, or both, such as \"4ms, 100MB/s\""
)]
pub struct SlowError(pub String);

/// The longest latency that anybody can mean.
const LATENCY_MAX: Duration = Duration::from_secs(60);

impl FromStr for Slow {
    type Err = SlowError;

    fn from_str(text: &str) -> Result<Slow, SlowError> {
        let wrong = || SlowError(text.to_owned());
        let (mut latency, mut bandwidth) = (None, None);
        for part in text.split(',').map(str::trim) {
            let again = match part.strip_suffix("/s") {
                Some(amount) => {
                    let amount = amount.parse().map_err(|_| wrong())?;
                    bandwidth.replace(amount).is_some() || amount == Bytes::ZERO
                }
                None => latency.replace(time(part).ok_or_else(wrong)?).is_some(),
            };
            if again {
                return Err(wrong());
            }
        }
        let latency = latency.unwrap_or_default();
        match latency <= LATENCY_MAX {
            true => Ok(Slow { latency, bandwidth }),
            false => Err(wrong()),
        }
    }
}

/// `4ms`, `500us`, `1s`, in whole microseconds.
fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let micros = match text[digits..].trim() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(number.checked_mul(micros)?))
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.latency.as_micros();
        match micros % 1_000 {
            0 => write!(f, "{}ms", micros / 1_000)?,
            _ => write!(f, "{micros}us")?,
        }
        match self.bandwidth {
            Some(amount) => write!(f, ", {}/s", exact(amount)),
            None => Ok(()),
        }
    }
}

/// An amount in the largest unit that divides it.
fn exact(Bytes(bytes): Bytes) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = UNITS.iter().find(|(unit, _)| bytes % unit == 0);
    fits.map_or_else(
        || format!("{bytes}B"),
        |(unit, name)| format!("{}{name}", bytes / unit),
    )
}

impl TryFrom<String> for Slow {
    type Error = SlowError;
    fn try_from(text: String) -> Result<Slow, SlowError> {
        text.parse()
    }
}

impl From<Slow> for String {
    fn from(slow: Slow) -> String {
        slow.to_string()
    }
}

/// Where a disk is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DiskListen {
    /// NBD over TCP: a host name or address (IPv6 without brackets) and a port; port 0 takes any free one.
    Tcp(String, u16),
    /// NBD on a Unix socket.
    Unix(String),
    /// vhost-user-blk on a Unix socket.
    VhostUser(String),
}

/// Why a disk cannot be served there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskListenError {
    /// None of the known kinds.
    #[error("{0:?} is none of unix:PATH, tcp:HOST:PORT and vhost-user:PATH")]
    NoScheme(String),
    /// No host or no port.
    #[error("{0:?} names no host and port; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809")]
    NoAddress(String),
    /// No path, or one longer than the kernel takes.
    #[error("{0:?} is no path for a Unix socket: 1 to {SOCKET_PATH_MAX} bytes")]
    BadPath(String),
}

/// The longest path of a Unix socket (`sun_path` and its closing zero).
const SOCKET_PATH_MAX: usize = 107;

impl FromStr for DiskListen {
    type Err = DiskListenError;

    fn from_str(text: &str) -> Result<DiskListen, DiskListenError> {
        match text.split_once(':') {
            Some(("tcp", rest)) => {
                address(rest).ok_or_else(|| DiskListenError::NoAddress(text.to_owned()))
            }
            Some(("unix" | "vhost-user", path))
                if path.is_empty() || path.len() > SOCKET_PATH_MAX =>
            {
                Err(DiskListenError::BadPath(text.to_owned()))
            }
            Some(("unix", path)) => Ok(DiskListen::Unix(path.to_owned())),
            Some(("vhost-user", path)) => Ok(DiskListen::VhostUser(path.to_owned())),
            _ => Err(DiskListenError::NoScheme(text.to_owned())),
        }
    }
}

fn address(text: &str) -> Option<DiskListen> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "" => None,
        host => Some(DiskListen::Tcp(host.to_owned(), port.parse().ok()?)),
    }
}

impl fmt::Display for DiskListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskListen::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            DiskListen::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
            DiskListen::Unix(path) => write!(f, "unix:{path}"),
            DiskListen::VhostUser(path) => write!(f, "vhost-user:{path}"),
        }
    }
}

impl TryFrom<String> for DiskListen {
    type Error = DiskListenError;
    fn try_from(text: String) -> Result<DiskListen, DiskListenError> {
        text.parse()
    }
}

impl From<DiskListen> for String {
    fn from(place: DiskListen) -> String {
        place.to_string()
    }
}

/// TLS of a disk's NBD listeners on TCP: paths of PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTls {
    /// Certificate chain.
    #[serde(rename = "tls_cert")]
    pub cert: String,
    /// Its private key.
    #[serde(rename = "tls_key")]
    pub key: String,
    /// Who signs the clients' certificates; clients need none without it.
    #[serde(rename = "tls_client_ca")]
    pub client_ca: Option<String>,
}

/// A disk as its owner wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSettings {
    /// Its name.
    pub name: DiskName,
    /// What it is for.
    pub kind: DiskKind,
    /// Whose memory it uses.
    pub tenant: TenantName,
    /// The file or block device behind it. A swap disk may have none: a file is made in the state folder.
    pub backing: Option<String>,
    /// Its size; a backing that exists has it already.
    pub size: Option<Bytes>,
    /// Where it is served.
    pub listen: Vec<DiskListen>,
    /// Mode of its Unix sockets; in JSON in octal, as text.
    #[serde(with = "octal")]
    pub mode: u32,
    /// The most queues that a guest may use over vhost-user; a thread each.
    pub queues: u16,
    /// Nobody may write.
    pub read_only: bool,
    /// When a write is safe. Unless said: write-through for disks, write-behind for swap.
    pub durability: Option<Durability>,
    /// Which pages are kept.
    pub fill: Option<Fill>,
    /// What leaves with a page that is evicted.
    pub windows: Option<Windows>,
    /// Pages of a sequential run that are kept, at the most; none is passed by unless this is said (PUMA's filter).
    pub sequential_max: Option<u32>,
    /// For experiments.
    pub slow: Option<Slow>,
    /// NBD over TCP speaks TLS only.
    #[serde(flatten)]
    pub tls: Option<DiskTls>,
}

impl DiskSettings {
    /// A disk of which nothing more is said: served nowhere, with nothing behind it.
    pub fn of(name: DiskName, tenant: TenantName) -> DiskSettings {
        DiskSettings {
            name,
            kind: DiskKind::default(),
            tenant,
            backing: None,
            size: None,
            listen: Vec::new(),
            mode: 0o600,
            queues: 1,
            read_only: false,
            durability: None,
            fill: None,
            windows: None,
            sequential_max: None,
            slow: None,
            tls: None,
        }
    }

    /// When a write is safe, said or not.
    pub fn durability(&self) -> Durability {
        self.durability
            .unwrap_or_else(|| Durability::usual(self.kind))
    }

    /// What a place of it speaks TLS with. That is for TCP: a Unix socket is its owner's by its mode.
    pub fn tls_at(&self, place: &DiskListen) -> Option<&DiskTls> {
        match place {
            DiskListen::Tcp(..) => self.tls.as_ref(),
            DiskListen::Unix(_) | DiskListen::VhostUser(_) => None,
        }
    }
}

/// A file's mode as text, such as `"0600"`.
mod octal {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mode: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{mode:04o}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        let text = String::deserialize(from)?;
        u32::from_str_radix(&text, 8).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_and_print_alike() {
        for text in [
            "unix:/run/sublet/db.sock",
            "tcp:127.0.0.1:10809",
            "tcp:[::1]:0",
            "vhost-user:/run/sublet/web.sock",
        ] {
            let place: Result<DiskListen, _> = text.parse();
            assert_eq!(place.map(|place| place.to_string()), Ok(text.to_owned()));
        }
        let fault = |text: &str| text.parse::<DiskListen>().expect_err(text);
        assert!(matches!(
            fault("/run/db.sock"),
            DiskListenError::NoScheme(_)
        ));
        assert!(matches!(fault("ring:/run/x"), DiskListenError::NoScheme(_)));
        for text in ["tcp:10809", "tcp::10809", "tcp:host:70000"] {
            assert!(
                matches!(fault(text), DiskListenError::NoAddress(_)),
                "{text}"
            );
        }
        let long = format!("vhost-user:/{}", "x".repeat(107));
        for text in ["unix:", &long] {
            assert!(matches!(fault(text), DiskListenError::BadPath(_)), "{text}");
        }
    }

    #[test]
    fn slowness_reads_as_people_write_it_and_prints_without_loss() {
        for (text, shown) in [
            ("4ms, 100MB/s", "4ms, 100MiB/s"),
            ("100MB/s,4ms", "4ms, 100MiB/s"),
            ("1s", "1000ms"),
            ("250us", "250us"),
            ("1.5k/s", "0ms, 1536B/s"),
        ] {
            let slow: Slow = text.parse().expect(text);
            assert_eq!(slow.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(slow), "{text}");
        }
        for text in [
            "", "4", "ms", "4ms, 5ms", "4ms,", "0/s", "2h", "61s", "-1ms",
        ] {
            assert!(text.parse::<Slow>().is_err(), "{text}");
        }
    }
}
