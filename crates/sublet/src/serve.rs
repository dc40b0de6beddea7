//! `sublet serve`: the daemon. Its options are made from the table of knobs.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sublet_host::config::{self, CliFlag, DAEMON_KNOBS, Knob, KnobArgument, TENANT_KNOBS};
use sublet_host::serve;

use crate::exit::Exit;
use crate::signals::survive_strays;

/// A config file, and the options that override it.
pub(crate) struct Args {
    file: Option<PathBuf>,
    flags: Vec<CliFlag>,
}

const AFTER_HELP: &str = "\
Without a config file there is one tenant, `default`, on tcp:127.0.0.1:11211, and the arena is as large as \
the host's idle memory allows. Everything that can be set: sublet config default";

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("The config file; options stand over it");
        let command = command.after_help(AFTER_HELP).arg(file);
        let command = DAEMON_KNOBS
            .iter()
            .filter_map(option)
            .fold(command, Command::arg);
        TENANT_KNOBS
            .iter()
            .filter_map(option)
            .fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Args::augment_args(command)
    }
}

/// The option of a knob that has one.
fn option<W>(knob: &Knob<W>) -> Option<Arg> {
    let flag = knob.flag?;
    let default = knob.default.map_or(String::new(), |default| {
        format!(" [default: {}]", default.trim_matches('"'))
    });
    let (unit, action) = match knob.takes {
        // An option of a list is given once per value.
        KnobArgument::Values => {
            let unit = knob.unit.trim_start_matches("a list of ");
            let unit = format!("{unit}; may be given several times");
            (unit, ArgAction::Append)
        }
        _ => (knob.unit.to_owned(), ArgAction::Set),
    };
    Some(
        Arg::new(flag)
            .long(flag)
            .value_name("VALUE")
            .action(action)
            .help(format!("{}: {unit}{default}", knob.help)),
    )
}

impl clap::FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Args, clap::Error> {
        let names = DAEMON_KNOBS.iter().filter_map(|knob| knob.flag);
        let names = names.chain(TENANT_KNOBS.iter().filter_map(|knob| knob.flag));
        let said = |name| {
            let given = matches.get_many::<String>(name).into_iter().flatten();
            given.map(move |text| (name, text.clone()))
        };
        Ok(Args {
            file: matches.get_one("config").cloned(),
            flags: names.flat_map(said).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Args::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Serves until it is told to end.
pub(crate) fn run(args: &Args) -> Exit {
    if let Err(exit) = survive_strays() {
        return exit;
    }
    let loaded = match config::load(args.file.as_deref(), &args.flags) {
        Ok(loaded) => loaded,
        Err(error) => return Exit::usage(error),
    };
    match serve::run(loaded) {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(error),
    }
}
