//! The options of a command line, and their meaning.

use std::path::PathBuf;
use std::time::Duration;

use sublet_frontends::memcached::serve::{Endpoint, EndpointsError, Transport, parse_endpoints};
use sublet_frontends::memcached::settings::{
    ClientCertificateDemand, Protocol, Settings, TlsSettings, TlsVersion,
};
use sublet_types::Bytes;

use super::exit_statuses::{EX_OSERR, EX_USAGE, FAILURE};

/// memcached refuses smaller items (`-I`).
const ITEM_MAX_MIN: u64 = 1 << 10;

/// memcached refuses larger items (`-I`).
const ITEM_MAX_MAX: u64 = 1 << 30;

/// The least memory of a store. Smaller values are treated as this.
pub(super) const MEMORY_MIN: Bytes = Bytes::mib(16);

/// Why a command line was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UsageError {
    #[error("{0}; -h lists the options")]
    Unknown(String),
    #[error("{option} {value}: not {wanted}")]
    NotANumber {
        option: &'static str,
        value: String,
        wanted: &'static str,
    },
    #[error("{option} {value}: {of_what} must be greater than 0")]
    NotPositive {
        option: &'static str,
        value: String,
        of_what: &'static str,
    },
    #[error("{option} {value}: must be {wanted}")]
    OutOfRange {
        option: &'static str,
        value: String,
        wanted: &'static str,
    },
    #[error("{option}: an empty file name")]
    NoPath { option: &'static str },
    #[error("-D: no delimiter given")]
    NoDelimiter,
    #[error("-B {0}: must be ascii, binary or auto")]
    UnknownProtocol(String),
    #[error("-o {0}: no such option; -h lists them")]
    UnknownSuboption(String),
    #[error("-o {0}: needs a value, as in {0}=…")]
    NoSuboptionValue(String),
    #[error("-o {0}: not offered here; leave it out")]
    NotOffered(&'static str),
    #[error("-U {0}: UDP is not offered; leave it out or say -U 0")]
    NoUdp(i32),
    #[error("-I: the largest item cannot be smaller than 1024 bytes")]
    ItemTooSmall,
    #[error("-I: the largest item cannot be larger than half of -m ({0} MiB)")]
    ItemTooLarge(u64),
    #[error("-I: the largest item cannot be larger than a gigabyte")]
    ItemHuge,
    #[error("-S: SASL belongs to the binary protocol; leave out -B ascii")]
    SaslWithoutBinary,
    #[error("-Y: its authentication belongs to the text protocol; leave out -B {0} or use -S")]
    TokensWithoutAscii(&'static str),
    #[error("-S and -Y: SASL is for the binary protocol, -Y for the text protocol; choose one")]
    SaslAndTokens,
    #[error("-Z: a TCP port is needed for TLS; leave out -p 0")]
    TlsWithoutPort,
    #[error("-Z: a certificate is needed: -o ssl_chain_cert=FILE,ssl_key=FILE")]
    TlsWithoutCertificate,
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
}

impl UsageError {
    /// memcached's exit status for the error.
    pub(super) fn exit(&self) -> u8 {
        match self {
            UsageError::Unknown(_)
            | UsageError::NotPositive { .. }
            | UsageError::OutOfRange { option: "-f", .. }
            | UsageError::NoDelimiter
            | UsageError::UnknownSuboption(_)
            | UsageError::NoSuboptionValue(_)
            | UsageError::NotOffered(_) => FAILURE,
            UsageError::Endpoints(_) => EX_OSERR,
            _ => EX_USAGE,
        }
    }
}

/// What to print instead of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrintRequest {
    Help,
    License,
    Version,
}

/// An option that has no effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IgnoredOption {
    pub(super) option: String,
    pub(super) why: &'static str,
    pub(super) said: NoteLevel,
}

/// When a message says that an option has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoteLevel {
    /// Always, because its user relies on the effect.
    Always,
    /// With `-v`, because Sublet does the same in another way.
    Verbosely,
}

/// The `ssl_…` options as written.
#[derive(Clone, Debug)]
pub(super) struct TlsOptions {
    pub(super) enabled: bool,
    pub(super) chain: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) client_certificate: ClientCertificateDemand,
    pub(super) min_version: TlsVersion,
    pub(super) resumes: bool,
    pub(super) write_buffer: u64,
}

/// The options as written.
pub(super) struct ParsedOptions {
    pub(super) settings: Settings,
    pub(super) protocol: Option<Protocol>,
    pub(super) port: Option<i32>,
    pub(super) udp_port: i32,
    pub(super) unix_socket: Option<PathBuf>,
    pub(super) daemon: bool,
    pub(super) core_dumps: bool,
    pub(super) user: Option<String>,
    pub(super) memory_mib: u64,
    pub(super) lock_memory: bool,
    pub(super) pid_file: Option<PathBuf>,
    pub(super) tls: TlsOptions,
    pub(super) shown: Option<PrintRequest>,
    notes: Vec<IgnoredOption>,
}

/// The meaning of the options: everything that the process needs to know.
#[derive(Clone, Debug)]
pub(super) struct ServePlan {
    pub(super) settings: Settings,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) memory: Bytes,
    pub(super) daemon: bool,
    pub(super) core_dumps: bool,
    pub(super) user: Option<String>,
    pub(super) lock_memory: bool,
    pub(super) pid_file: Option<PathBuf>,
    /// Options without effect.
    pub(super) notes: Vec<IgnoredOption>,
}

/// The request of a command line.
pub(super) enum Invocation {
    Show(PrintRequest),
    Serve(Box<ServePlan>),
}

impl ParsedOptions {
    pub(super) fn nothing() -> ParsedOptions {
        ParsedOptions {
            settings: Settings::default(),
            protocol: None,
            port: None,
            udp_port: 0,
            unix_socket: None,
            daemon: false,
            core_dumps: false,
            user: None,
            memory_mib: 64,
            lock_memory: false,
            pid_file: None,
            tls: TlsOptions {
                enabled: false,
                chain: None,
                key: None,
                client_ca: None,
                client_certificate: ClientCertificateDemand::Unasked,
                min_version: TlsVersion::V12,
                resumes: false,
                write_buffer: 16 << 10,
            },
            shown: None,
            notes: Vec::new(),
        }
    }

    /// Notes an option that has no effect here because its purpose is met in another way.
    pub(super) fn note_ignored(&mut self, option: impl Into<String>, why: &'static str) {
        self.push_note(option.into(), why, NoteLevel::Verbosely);
    }

    /// Notes an option that promises an effect it does not have here.
    pub(super) fn warn_ignored(&mut self, option: impl Into<String>, why: &'static str) {
        self.push_note(option.into(), why, NoteLevel::Always);
    }

    fn push_note(&mut self, option: String, why: &'static str, said: NoteLevel) {
        self.notes.push(IgnoredOption { option, why, said });
    }

    /// Adds addresses. An address that was already given counts once.
    pub(super) fn listen(&mut self, addresses: &str) {
        match &mut self.settings.inter {
            Some(known) if known.split([',', ';']).any(|one| one == addresses) => {}
            Some(known) => {
                known.push(',');
                known.push_str(addresses);
            }
            none => *none = Some(addresses.to_owned()),
        }
    }

    pub(super) fn speak(&mut self, protocol: &str) -> Result<(), UsageError> {
        self.protocol = Some(match protocol {
            "ascii" => Protocol::Ascii,
            "binary" => Protocol::Binary,
            "auto" => Protocol::Auto,
            other => return Err(UsageError::UnknownProtocol(other.to_owned())),
        });
        Ok(())
    }

    pub(super) fn into_plan(mut self) -> Result<ServePlan, UsageError> {
        if self.udp_port != 0 {
            return Err(UsageError::NoUdp(self.udp_port));
        }
        self.check_item_size()?;
        self.settings.protocol = self.protocol_meant()?;
        self.settings.tls = self.tls_meant()?;
        self.settings.tls_write_buffer = self.tls.write_buffer;
        self.settings.port = self.port.unwrap_or(11211).max(0) as u16;
        self.settings.unix_socket = self.unix_socket.clone();
        let endpoints = self.endpoints()?;
        let memory = self.memory();
        Ok(ServePlan {
            settings: self.settings,
            endpoints,
            memory,
            daemon: self.daemon,
            core_dumps: self.core_dumps,
            user: self.user,
            lock_memory: self.lock_memory,
            pid_file: self.pid_file,
            notes: self.notes,
        })
    }

    fn check_item_size(&self) -> Result<(), UsageError> {
        match self.settings.item_max {
            size if size < ITEM_MAX_MIN => Err(UsageError::ItemTooSmall),
            size if size > Bytes::mib(self.memory_mib).0 / 2 => {
                Err(UsageError::ItemTooLarge(self.memory_mib))
            }
            size if size > ITEM_MAX_MAX => Err(UsageError::ItemHuge),
            _ => Ok(()),
        }
    }

    fn protocol_meant(&self) -> Result<Protocol, UsageError> {
        let tokens = self.settings.auth_file.is_some();
        match (self.settings.sasl, tokens, self.protocol) {
            (true, true, _) => Err(UsageError::SaslAndTokens),
            (true, false, None | Some(Protocol::Binary)) => Ok(Protocol::Binary),
            (true, false, Some(_)) => Err(UsageError::SaslWithoutBinary),
            (false, true, None | Some(Protocol::Ascii)) => Ok(Protocol::Ascii),
            (false, true, Some(Protocol::Binary)) => Err(UsageError::TokensWithoutAscii("binary")),
            (false, true, Some(Protocol::Auto)) => Err(UsageError::TokensWithoutAscii("auto")),
            (false, false, spoken) => Ok(spoken.unwrap_or(Protocol::Auto)),
        }
    }

    fn tls_meant(&self) -> Result<Option<TlsSettings>, UsageError> {
        if !self.tls.enabled {
            return Ok(None);
        }
        if self.port == Some(0) {
            return Err(UsageError::TlsWithoutPort);
        }
        let written = self.tls.clone();
        Ok(Some(TlsSettings {
            chain: written.chain.ok_or(UsageError::TlsWithoutCertificate)?,
            key: written.key,
            client_ca: written.client_ca,
            client_certificate: written.client_certificate,
            min_version: written.min_version,
            resumes: written.resumes,
        }))
    }

    /// A Unix socket replaces TCP, as it does for memcached.
    fn endpoints(&self) -> Result<Vec<Endpoint>, UsageError> {
        if let Some(path) = &self.unix_socket {
            return Ok(vec![Endpoint::Unix {
                path: path.clone(),
                mode: self.settings.unix_mode,
            }]);
        }
        if self.port == Some(0) {
            return Ok(Vec::new());
        }
        let (port, transport) = (
            self.settings.port,
            match self.settings.tls {
                Some(_) => Transport::Tls,
                None => Transport::Plain,
            },
        );
        match &self.settings.inter {
            Some(list) => Ok(parse_endpoints(list, port, transport)?),
            None => Ok(vec![Endpoint::Tcp {
                host: None,
                port,
                transport,
            }]),
        }
    }

    fn memory(&mut self) -> Bytes {
        let memory = Bytes::mib(self.memory_mib);
        if memory < MEMORY_MIN {
            self.note_ignored("-m", "less than 16 MiB is treated as 16");
        }
        memory.max(MEMORY_MIN)
    }
}

/// The idle time-out in seconds. 0 means none.
pub(super) fn idle_timeout(secs: u64) -> Option<Duration> {
    (secs > 0).then(|| Duration::from_secs(secs))
}
