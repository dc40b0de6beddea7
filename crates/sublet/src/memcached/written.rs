//! What was written on a command line, and what it means.

use std::path::PathBuf;
use std::time::Duration;

use sublet_frontends::memcached::serve::{Endpoint, EndpointsError, Transport, parse_endpoints};
use sublet_frontends::memcached::settings::{
    ClientCertificate, Protocol, Settings, TlsSettings, TlsVersion,
};
use sublet_types::Bytes;

use super::statuses::{EX_OSERR, EX_USAGE, FAILURE};

/// memcached refuses smaller items (`-I`).
const ITEM_MAX_MIN: u64 = 1 << 10;

/// memcached refuses larger items (`-I`).
const ITEM_MAX_MAX: u64 = 1 << 30;

/// The least memory that a store works with; less is treated as this.
pub(super) const MEMORY_MIN: Bytes = Bytes::mib(16);

/// Why a command line cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Usage {
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

impl Usage {
    /// memcached's exit status for it.
    pub(super) fn exit(&self) -> u8 {
        match self {
            Usage::Unknown(_)
            | Usage::NotPositive { .. }
            | Usage::OutOfRange { option: "-f", .. }
            | Usage::NoDelimiter
            | Usage::UnknownSuboption(_)
            | Usage::NoSuboptionValue(_)
            | Usage::NotOffered(_) => FAILURE,
            Usage::Endpoints(_) => EX_OSERR,
            _ => EX_USAGE,
        }
    }
}

/// What is printed in place of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Help,
    License,
    Version,
}

/// An option that has no effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) option: String,
    pub(super) why: &'static str,
    pub(super) said: Said,
}

/// When it is said that an option has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Always: who wrote it counts on what it does.
    Always,
    /// With `-v`: it is done here in another way.
    Verbosely,
}

/// The `ssl_…` options as they were written.
#[derive(Clone, Debug)]
pub(super) struct TlsWritten {
    pub(super) enabled: bool,
    pub(super) chain: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) client_certificate: ClientCertificate,
    pub(super) min_version: TlsVersion,
    pub(super) resumes: bool,
    pub(super) write_buffer: u64,
}

/// What was written.
pub(super) struct Written {
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
    pub(super) tls: TlsWritten,
    pub(super) shown: Option<Shown>,
    notes: Vec<Note>,
}

/// What it means: everything that the process needs to know.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) memory: Bytes,
    pub(super) daemon: bool,
    pub(super) core_dumps: bool,
    pub(super) user: Option<String>,
    pub(super) lock_memory: bool,
    pub(super) pid_file: Option<PathBuf>,
    /// What was said but has no effect.
    pub(super) notes: Vec<Note>,
}

/// What a command line asks for.
pub(super) enum Request {
    Show(Shown),
    Serve(Box<Plan>),
}

impl Written {
    pub(super) fn nothing() -> Written {
        Written {
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
            tls: TlsWritten {
                enabled: false,
                chain: None,
                key: None,
                client_ca: None,
                client_certificate: ClientCertificate::Unasked,
                min_version: TlsVersion::V12,
                resumes: false,
                write_buffer: 16 << 10,
            },
            shown: None,
            notes: Vec::new(),
        }
    }

    /// Notes an option that has no effect here, and whose purpose is met in another way.
    pub(super) fn note(&mut self, option: impl Into<String>, why: &'static str) {
        self.push_note(option.into(), why, Said::Verbosely);
    }

    /// Notes an option that promises what is not kept.
    pub(super) fn warn(&mut self, option: impl Into<String>, why: &'static str) {
        self.push_note(option.into(), why, Said::Always);
    }

    fn push_note(&mut self, option: String, why: &'static str, said: Said) {
        self.notes.push(Note { option, why, said });
    }

    pub(super) fn note_if(&mut self, good: bool, option: &str, why: &'static str) -> Option<()> {
        good.then(|| self.note(option, why))
    }

    /// Adds addresses; saying one twice is saying it once.
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

    pub(super) fn speak(&mut self, protocol: &str) -> Result<(), Usage> {
        self.protocol = Some(match protocol {
            "ascii" => Protocol::Ascii,
            "binary" => Protocol::Binary,
            "auto" => Protocol::Auto,
            other => return Err(Usage::UnknownProtocol(other.to_owned())),
        });
        Ok(())
    }

    pub(super) fn meaning(mut self) -> Result<Plan, Usage> {
        if self.udp_port != 0 {
            return Err(Usage::NoUdp(self.udp_port));
        }
        self.check_item_size()?;
        self.settings.protocol = self.protocol_meant()?;
        self.settings.tls = self.tls_meant()?;
        self.settings.tls_write_buffer = self.tls.write_buffer;
        self.settings.port = self.port.unwrap_or(11211).max(0) as u16;
        self.settings.unix_socket = self.unix_socket.clone();
        let endpoints = self.endpoints()?;
        let memory = self.memory();
        Ok(Plan {
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

    fn check_item_size(&self) -> Result<(), Usage> {
        match self.settings.item_max {
            size if size < ITEM_MAX_MIN => Err(Usage::ItemTooSmall),
            size if size > Bytes::mib(self.memory_mib).0 / 2 => {
                Err(Usage::ItemTooLarge(self.memory_mib))
            }
            size if size > ITEM_MAX_MAX => Err(Usage::ItemHuge),
            _ => Ok(()),
        }
    }

    fn protocol_meant(&self) -> Result<Protocol, Usage> {
        let tokens = self.settings.auth_file.is_some();
        match (self.settings.sasl, tokens, self.protocol) {
            (true, true, _) => Err(Usage::SaslAndTokens),
            (true, false, None | Some(Protocol::Binary)) => Ok(Protocol::Binary),
            (true, false, Some(_)) => Err(Usage::SaslWithoutBinary),
            (false, true, None | Some(Protocol::Ascii)) => Ok(Protocol::Ascii),
            (false, true, Some(Protocol::Binary)) => Err(Usage::TokensWithoutAscii("binary")),
            (false, true, Some(Protocol::Auto)) => Err(Usage::TokensWithoutAscii("auto")),
            (false, false, spoken) => Ok(spoken.unwrap_or(Protocol::Auto)),
        }
    }

    fn tls_meant(&self) -> Result<Option<TlsSettings>, Usage> {
        if !self.tls.enabled {
            return Ok(None);
        }
        if self.port == Some(0) {
            return Err(Usage::TlsWithoutPort);
        }
        let written = self.tls.clone();
        Ok(Some(TlsSettings {
            chain: written.chain.ok_or(Usage::TlsWithoutCertificate)?,
            key: written.key,
            client_ca: written.client_ca,
            client_certificate: written.client_certificate,
            min_version: written.min_version,
            resumes: written.resumes,
        }))
    }

    /// A Unix socket takes the place of TCP, as it does for memcached.
    fn endpoints(&self) -> Result<Vec<Endpoint>, Usage> {
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
            self.note("-m", "less than 16 MiB is treated as 16");
        }
        memory.max(MEMORY_MIN)
    }
}

/// Seconds of an idle time-out; 0 is none.
pub(super) fn idle_timeout(secs: u64) -> Option<Duration> {
    (secs > 0).then(|| Duration::from_secs(secs))
}
