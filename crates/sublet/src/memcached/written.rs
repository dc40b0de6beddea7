//! A command line: what was written, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::Arg;
use sublet_frontends::memcached::serve::{Endpoint, EndpointsError, Transport, parse_endpoints};
use sublet_frontends::memcached::settings::{
    ClientCertificate, Protocol, Settings, TlsSettings, TlsVersion,
};
use sublet_types::Bytes;

use super::flags::{FLAGS, Flag, Set};

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
        const FAILURE: u8 = 1;
        const EX_USAGE: u8 = 64;
        match self {
            Usage::Unknown(_)
            | Usage::NotPositive { .. }
            | Usage::OutOfRange { option: "-f", .. }
            | Usage::NoDelimiter
            | Usage::UnknownSuboption(_)
            | Usage::NoSuboptionValue(_)
            | Usage::NotOffered(_) => FAILURE,
            Usage::Endpoints(_) => super::EX_OSERR,
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
    fn nothing() -> Written {
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

    fn apply(&mut self, flag: &Flag, parser: &mut lexopt::Parser) -> Result<(), Usage> {
        let value = match flag.value {
            None => String::new(),
            Some(_) => text(parser.value().map_err(unknown)?),
        };
        match flag.set {
            Set::Plain(set) => set(self),
            Set::Valued(set) => set(self, value.trim_start())?,
            Set::Nothing(why) => self.note(format!("-{}", flag.short), why),
        }
        Ok(())
    }

    fn meaning(mut self) -> Result<Plan, Usage> {
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

/// Reads a command line, without the program's name.
pub(super) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Request, Usage> {
    let mut written = Written::nothing();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(unknown)? {
        match argument {
            Arg::Short(short) => match FLAGS.iter().find(|flag| flag.short == short) {
                Some(flag) => written.apply(flag, &mut parser)?,
                None => return Err(Usage::Unknown(format!("unknown option -{short}"))),
            },
            Arg::Long("verbose") => {
                let level = parser.optional_value().map_or(1, |text| text.len() as u8);
                written.settings.verbosity = written.settings.verbosity.saturating_add(level);
            }
            Arg::Long(long) => match find_long(long) {
                Some(flag) => written.apply(flag, &mut parser)?,
                None => return Err(Usage::Unknown(format!("unknown option --{long}"))),
            },
            Arg::Value(stray) => written.note(text(stray), "it belongs to no option"),
        }
        if let Some(shown) = written.shown {
            return Ok(Request::Show(shown));
        }
    }
    Ok(Request::Serve(Box::new(written.meaning()?)))
}

/// By its name, or by a beginning that no other has.
fn find_long(written: &str) -> Option<&'static Flag> {
    let exact = FLAGS.iter().find(|flag| flag.long == Some(written));
    exact.or_else(|| {
        let begins = |flag: &&Flag| flag.long.is_some_and(|long| long.starts_with(written));
        let mut found = FLAGS.iter().filter(begins);
        let only = found.next();
        only.filter(|_| found.next().is_none())
    })
}

fn unknown(error: lexopt::Error) -> Usage {
    Usage::Unknown(error.to_string())
}

fn text(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}

/// Seconds of an idle time-out; 0 is none.
pub(super) fn idle_timeout(secs: u64) -> Option<Duration> {
    (secs > 0).then(|| Duration::from_secs(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, Usage> {
        match read(line.split_whitespace().map(OsString::from))? {
            Request::Serve(plan) => Ok(*plan),
            Request::Show(shown) => panic!("{line} shows {shown:?}"),
        }
    }

    fn wrong(line: &str) -> (Usage, u8) {
        let usage = plan(line).expect_err(line);
        let exit = usage.exit();
        (usage, exit)
    }

    #[test]
    fn nothing_written_means_memcached_s_defaults() {
        let plan = plan("").expect("defaults");
        assert_eq!(plan.memory, Bytes::mib(64));
        assert_eq!(plan.settings.connections_max, 1024);
        assert_eq!(plan.settings.threads, 4);
        assert_eq!(
            plan.endpoints,
            [Endpoint::Tcp {
                host: None,
                port: 11211,
                transport: Transport::Plain
            }]
        );
        assert!(plan.notes.is_empty());
    }

    #[test]
    fn every_way_of_writing_an_option_means_the_same() {
        for line in [
            "-p11311 -m128 -c 99 -vv -t2",
            "-p 11311 -m 128 -c99 -v -v -t 2",
            "--port=11311 --memory-limit=128 --conn-limit=99 --verbose --verbose --threads=2",
            "--port 11311 --memory-l 128 --conn 99 -v --verb -t2",
            "-vvp11311 -m128 -c99 -t2",
        ] {
            let plan = plan(line).expect(line);
            assert_eq!(plan.settings.port, 11311, "{line}");
            assert_eq!(plan.memory, Bytes::mib(128), "{line}");
            assert_eq!(plan.settings.connections_max, 99, "{line}");
            assert_eq!(plan.settings.verbosity, 2, "{line}");
            assert_eq!(plan.settings.threads, 2, "{line}");
        }
    }

    #[test]
    fn what_supervisors_and_test_suites_write_is_taken() {
        for line in [
            "-u root -s /tmp/x -o relaxed_privileges",
            "-m 60 -o slab_reassign,slab_automove,lru_crawler,lru_maintainer,slab_chunk_max=4",
            "-o no_modern -o idle_timeout=3 -l 127.0.0.1 -p 12345 -U 0",
            "-I 1024 -o slab_chunk_max=1",
            "-m 6 -o lru_maintainer,lru_crawler,temporary_ttl=61,hash_algorithm=xxh3,track_sizes",
            "-f 1.25 -n 48 -L -k -r -C -F -X -W -A -D/ -R 50 -b 8675 -a 770 -M",
            "-d -P /run/x.pid -u nobody -B binary -U 0",
        ] {
            plan(line).expect(line);
        }
    }

    #[test]
    fn wrong_values_end_as_memcached_ends() {
        assert_eq!(wrong("-c 0").1, 1);
        assert_eq!(wrong("-c -1").1, 1);
        assert_eq!(wrong("-t 0").1, 1);
        assert_eq!(wrong("-R 0").1, 1);
        assert_eq!(wrong("-f 1").1, 1);
        assert_eq!(wrong("-D").1, 1);
        assert_eq!(
            wrong("-B http"),
            (Usage::UnknownProtocol("http".into()), 64)
        );
        assert_eq!(wrong("-S -B ascii"), (Usage::SaslWithoutBinary, 64));
        assert_eq!(wrong("-I 1000"), (Usage::ItemTooSmall, 64));
        assert_eq!(wrong("-I 256m"), (Usage::ItemTooLarge(64), 64));
        assert_eq!(wrong("-m 4096 -I 1025m"), (Usage::ItemHuge, 64));
        assert_eq!(wrong("-p 65536").1, 64);
        assert_eq!(wrong("-U 11211"), (Usage::NoUdp(11211), 64));
        assert_eq!(wrong("-Z"), (Usage::TlsWithoutCertificate, 64));
        assert_eq!(wrong("-l notls:127.0.0.1:1").1, 71);
        assert_eq!(wrong("-o ext_path=/x:64m").1, 1);
        assert_eq!(wrong("-o hashpower").1, 1);
        assert_eq!(
            wrong("-o drop_privileges"),
            (Usage::NotOffered("drop_privileges"), 1)
        );
        assert_eq!(wrong("-j").1, 1);
        assert_eq!(wrong("--no-such-thing").1, 1);
        assert_eq!(wrong("-p").1, 1);
        assert_eq!(wrong("--unix").1, 1, "two options begin so");
    }

    #[test]
    fn little_memory_is_treated_as_sixteen_mebibytes_and_said() {
        let plan = plan("-m 2").expect("taken");
        assert_eq!(plan.memory, Bytes::mib(16));
        assert_eq!(plan.notes[0].option, "-m");
    }

    #[test]
    fn what_would_be_counted_on_is_said_unasked() {
        let plan = plan("-e /tmp/x -N 4").expect("taken");
        let said = |note: &Note| (note.option.clone(), note.said);
        let said: Vec<_> = plan.notes.iter().map(said).collect();
        let expected = [("-e", Said::Always), ("-N", Said::Verbosely)];
        assert_eq!(
            said,
            expected.map(|(option, said)| (option.to_owned(), said))
        );
    }

    #[test]
    fn an_idle_time_out_is_taken_and_0_is_none() {
        let idle = |line| plan(line).expect(line).settings.idle_timeout;
        assert_eq!(idle("-o idle_timeout=3"), Some(Duration::from_secs(3)));
        assert_eq!(idle("-o idle_timeout=0"), None);
        assert_eq!(wrong("-o idle_timeout").1, 1);
        assert_eq!(wrong("-o idle_timeout=x").1, 64);
    }

    #[test]
    fn several_addresses_are_one_list() {
        let plan = plan("-l 127.0.0.1 -l 127.0.0.1 -l [::1]:99 -p -1").expect("taken");
        assert_eq!(plan.settings.inter.as_deref(), Some("127.0.0.1,[::1]:99"));
        assert_eq!(plan.endpoints.len(), 2);
        assert!(matches!(&plan.endpoints[0], Endpoint::Tcp { port: 0, .. }));
    }

    #[test]
    fn a_unix_socket_takes_the_place_of_tcp() {
        let plan = plan("-s /tmp/x -a 0777 -p 11211").expect("taken");
        let unix = Endpoint::Unix {
            path: "/tmp/x".into(),
            mode: 0o777,
        };
        assert_eq!(plan.endpoints, [unix]);
    }
}
