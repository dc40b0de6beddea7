//! The settings of a disk, as the host's owner writes them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, TenantName, TenantNameError};

/// A disk's name, which is also its name as an NBD export. It is spelled like a tenant's name.
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
    /// Files. Memory holds a second copy of what the backing has.
    #[default]
    Disk,
    /// Swap. Pages go to memory first, and to the backing if memory is short.
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

/// When a write is safe, and from which failures (`docs/disks.md` has the table).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The write is acknowledged from memory and lost with the daemon.
    Memory,
    /// The write is acknowledged from memory that outlives the daemon. It goes to the backing in the background.
    WriteBehind,
    /// The write is acknowledged when the backing has it.
    WriteThrough,
}

impl Durability {
    /// Each, by its name.
    pub const ALL: [(&'static str, Durability); 3] = [
        ("memory", Durability::Memory),
        ("write-behind", Durability::WriteBehind),
        ("write-through", Durability::WriteThrough),
    ];

    /// The durability of a kind of disk if its owner sets none.
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

/// Which pages stay in memory after a read from the backing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillPolicy {
    /// Every one.
    Miss,
    /// A page that is missed a second time.
    #[default]
    SecondMiss,
    /// Every page, until it is read from memory. The guest has it then.
    DropOnRead,
}

impl FillPolicy {
    /// Each, by its name.
    pub const ALL: [(&'static str, FillPolicy); 3] = [
        ("miss", FillPolicy::Miss),
        ("second-miss", FillPolicy::SecondMiss),
        ("drop-on-read", FillPolicy::DropOnRead),
    ];
}

impl fmt::Display for FillPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_in(&FillPolicy::ALL, self))
    }
}

/// What leaves memory with a page of a disk that is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowEviction {
    /// Nothing.
    #[default]
    Pages,
    /// The rest of its window.
    Whole,
}

impl WindowEviction {
    /// Each, by its name.
    pub const ALL: [(&'static str, WindowEviction); 2] = [
        ("pages", WindowEviction::Pages),
        ("whole", WindowEviction::Whole),
    ];
}

impl fmt::Display for WindowEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_in(&WindowEviction::ALL, self))
    }
}

fn name_in<T: PartialEq>(all: &[(&'static str, T)], wanted: &T) -> &'static str {
    let named = all.iter().find(|(_, one)| one == wanted);
    named.map_or("", |(name, _)| name)
}

/// An artificial slowdown of a backing, for experiments. Written `4ms`, `100MiB/s` or `4ms, 100MiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SlowBacking {
    /// Delay that each request gets.
    pub latency: Duration,
    /// The most bytes per second.
    pub bandwidth: Option<Bytes>,
}

/// Why a slowdown was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not say how slow: write a latency up to 60s, a bandwidth, or both, such as \"4ms, 100MB/s\""
)]
pub struct SlowBackingError(pub String);

/// The longest latency that is accepted.
const LATENCY_MAX: Duration = Duration::from_secs(60);

impl FromStr for SlowBacking {
    type Err = SlowBackingError;

    fn from_str(text: &str) -> Result<SlowBacking, SlowBackingError> {
        let wrong = || SlowBackingError(text.to_owned());
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
            true => Ok(SlowBacking { latency, bandwidth }),
            false => Err(wrong()),
        }
    }
}

/// Reads `4ms`, `500us` or `1s` as whole microseconds.
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

impl fmt::Display for SlowBacking {
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

impl TryFrom<String> for SlowBacking {
    type Error = SlowBackingError;
    fn try_from(text: String) -> Result<SlowBacking, SlowBackingError> {
        text.parse()
    }
}

impl From<SlowBacking> for String {
    fn from(slow: SlowBacking) -> String {
        slow.to_string()
    }
}

/// Where a disk is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DiskListen {
    /// NBD over TCP: a host name or address (IPv6 without brackets) and a port. Port 0 takes any free one.
    Tcp(String, u16),
    /// NBD on a Unix socket.
    Unix(String),
    /// vhost-user-blk on a Unix socket.
    VhostUser(String),
}

/// Why a disk cannot be served there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskListenError {
    /// The text has no known scheme.
    #[error("{0:?} is none of unix:PATH, tcp:HOST:PORT and vhost-user:PATH")]
    NoScheme(String),
    /// The text has no host or no port.
    #[error("{0:?} names no host and port; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809")]
    NoAddress(String),
    /// The text has no path, or one longer than the kernel accepts.
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
    /// The authority that signs the clients' certificates. Clients need no certificate if it is absent.
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
    /// The tenant whose memory it uses.
    pub tenant: TenantName,
    /// The file or block device behind it. A swap disk may have none; the daemon then makes a file in the state folder.
    pub backing: Option<String>,
    /// Its size. A backing that exists already has one.
    pub size: Option<Bytes>,
    /// Where it is served.
    pub listen: Vec<DiskListen>,
    /// The mode of its Unix sockets. JSON has it as octal text.
    #[serde(with = "octal")]
    pub mode: u32,
    /// The most queues that a guest may use over vhost-user. Each queue takes a thread.
    pub queues: u16,
    /// Whether writes are refused.
    pub read_only: bool,
    /// When a write is safe. The default is write-through for disks and write-behind for swap.
    pub durability: Option<Durability>,
    /// Which pages that were read stay in memory.
    pub fill: Option<FillPolicy>,
    /// What leaves memory with a page that is evicted.
    pub windows: Option<WindowEviction>,
    /// The most pages of a sequential run that are kept. All are kept if this is not set (PUMA's filter).
    pub sequential_max: Option<u32>,
    /// An artificial slowdown, for experiments.
    pub slow: Option<SlowBacking>,
    /// Certificates of NBD over TCP. If they are set, it speaks TLS only.
    #[serde(flatten)]
    pub tls: Option<DiskTls>,
}

impl DiskSettings {
    /// A disk with default settings: no listener and no backing.
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

    /// When a write is safe, by setting or by default.
    pub fn durability(&self) -> Durability {
        self.durability
            .unwrap_or_else(|| Durability::usual(self.kind))
    }

    /// The TLS settings of one of its listeners. Only TCP has them; a Unix socket is protected by its mode.
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
            let slow: SlowBacking = text.parse().expect(text);
            assert_eq!(slow.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(slow), "{text}");
        }
        for text in [
            "", "4", "ms", "4ms, 5ms", "4ms,", "0/s", "2h", "61s", "-1ms",
        ] {
            assert!(text.parse::<SlowBacking>().is_err(), "{text}");
        }
    }
}
