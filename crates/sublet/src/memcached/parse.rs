//! Reads a command line by the table of flags.

use std::ffi::OsString;

use lexopt::Arg;

use super::flags::{FLAGS, Flag, FlagEffect};
use super::parsed_options::{Invocation, ParsedOptions, UsageError};

/// Reads a command line, without the program's name.
pub(super) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Invocation, UsageError> {
    let mut written = ParsedOptions::nothing();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(unknown)? {
        match argument {
            Arg::Short(short) => match FLAGS.iter().find(|flag| flag.short == short) {
                Some(flag) => written.apply(flag, &mut parser)?,
                None => return Err(UsageError::Unknown(format!("unknown option -{short}"))),
            },
            Arg::Long("verbose") => {
                let level = parser.optional_value().map_or(1, |text| text.len() as u8);
                written.settings.verbosity = written.settings.verbosity.saturating_add(level);
            }
            Arg::Long(long) => match find_long(long) {
                Some(flag) => written.apply(flag, &mut parser)?,
                None => return Err(UsageError::Unknown(format!("unknown option --{long}"))),
            },
            Arg::Value(stray) => written.note_ignored(text(stray), "it belongs to no option"),
        }
        if let Some(shown) = written.shown {
            return Ok(Invocation::Show(shown));
        }
    }
    Ok(Invocation::Serve(Box::new(written.into_plan()?)))
}

impl ParsedOptions {
    fn apply(&mut self, flag: &Flag, parser: &mut lexopt::Parser) -> Result<(), UsageError> {
        let value = match flag.value {
            None => String::new(),
            Some(_) => text(parser.value().map_err(unknown)?),
        };
        match flag.set {
            FlagEffect::Plain(set) => set(self),
            FlagEffect::Valued(set) => set(self, value.trim_start())?,
            FlagEffect::Nothing(why) => self.note_ignored(format!("-{}", flag.short), why),
        }
        Ok(())
    }
}

/// Finds an option by its name, or by a prefix that no other option has.
fn find_long(written: &str) -> Option<&'static Flag> {
    let exact = FLAGS.iter().find(|flag| flag.long == Some(written));
    exact.or_else(|| {
        let begins = |flag: &&Flag| flag.long.is_some_and(|long| long.starts_with(written));
        let mut found = FLAGS.iter().filter(begins);
        let only = found.next();
        only.filter(|_| found.next().is_none())
    })
}

fn unknown(error: lexopt::Error) -> UsageError {
    UsageError::Unknown(error.to_string())
}

fn text(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sublet_frontends::memcached::serve::{Endpoint, Transport};
    use sublet_types::Bytes;

    use super::super::parsed_options::{IgnoredOption, NoteLevel, ServePlan};
    use super::*;

    fn plan(line: &str) -> Result<ServePlan, UsageError> {
        match read(line.split_whitespace().map(OsString::from))? {
            Invocation::Serve(plan) => Ok(*plan),
            Invocation::Show(shown) => panic!("{line} shows {shown:?}"),
        }
    }

    fn wrong(line: &str) -> (UsageError, u8) {
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
            (UsageError::UnknownProtocol("http".into()), 64)
        );
        assert_eq!(wrong("-S -B ascii"), (UsageError::SaslWithoutBinary, 64));
        assert_eq!(wrong("-I 1000"), (UsageError::ItemTooSmall, 64));
        assert_eq!(wrong("-I 256m"), (UsageError::ItemTooLarge(64), 64));
        assert_eq!(wrong("-m 4096 -I 1025m"), (UsageError::ItemHuge, 64));
        assert_eq!(wrong("-p 65536").1, 64);
        assert_eq!(wrong("-U 11211"), (UsageError::NoUdp(11211), 64));
        assert_eq!(wrong("-Z"), (UsageError::TlsWithoutCertificate, 64));
        assert_eq!(wrong("-l notls:127.0.0.1:1").1, 71);
        assert_eq!(wrong("-o ext_path=/x:64m").1, 1);
        assert_eq!(wrong("-o hashpower").1, 1);
        assert_eq!(
            wrong("-o drop_privileges"),
            (UsageError::NotOffered("drop_privileges"), 1)
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
        let said = |note: &IgnoredOption| (note.option.clone(), note.said);
        let said: Vec<_> = plan.notes.iter().map(said).collect();
        let expected = [("-e", NoteLevel::Always), ("-N", NoteLevel::Verbosely)];
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
