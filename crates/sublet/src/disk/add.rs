//! `sublet disk add`. Its options are made from the table of knobs.

use std::collections::BTreeMap;
use std::path::absolute;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;
use sublet_client::messages::{AddDisk, ChangeLifetime};
use sublet_host::config::{
    DISK_KNOBS, Knob, KnobArgument, RETIRED_KNOBS, RawValue, RetiredKnob, WrittenDisk,
};
use sublet_types::{DiskListen, DiskName};

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::grants::TemporaryFlag;

/// A new disk.
pub(super) struct AddArgs {
    name: DiskName,
    /// The words of each option, by the knob's name.
    said: BTreeMap<&'static str, OptionWords>,
    lasts: ChangeLifetime,
    create: bool,
    pub(super) daemon: AdminOptions,
}

/// A new disk with an image that the daemon makes for it.
pub(super) struct CreateArgs(pub(super) AddArgs);

/// The words after an option.
enum OptionWords {
    /// None: the option is a switch that was given.
    Yes,
    /// One word.
    One(String),
    /// One word per time that it was given.
    Many(Vec<String>),
}

const AFTER_HELP: &str = "\
A disk needs --backing; a swap disk needs --size or --backing. --listen may be given more than once. \
The backing must be there, and lie under a folder that `sublet disk allow` allows: docs/disks.md.

  sublet disk add db --tenant db --backing /var/lib/vm/db.img --listen unix:/run/sublet/db.sock
  sublet disk add web-swap --kind swap --size 4GiB --tenant web --listen vhost-user:/run/sublet/web.sock";

const AFTER_CREATE_HELP: &str = "\
The image is a raw file of that size, which takes blocks as they are written (a swap disk's has them from the start), and only the daemon may open it. \
Without --backing it is NAME.img in the first folder where backings may lie, /var/lib/vm unless the config says otherwise.

  sublet disk create db --size 20GiB --tenant db --listen unix:/run/sublet/db.sock";

/// Options without which there is no disk.
const REQUIRED: [&str; 2] = ["tenant", "listen"];

/// The knobs that have an option, each with its option.
fn knobs() -> impl Iterator<Item = (&'static Knob<WrittenDisk>, &'static str)> {
    DISK_KNOBS
        .iter()
        .filter_map(|knob| Some((knob, knob.flag?)))
}

fn option((knob, flag): (&'static Knob<WrittenDisk>, &'static str)) -> Arg {
    let arg = Arg::new(knob.name).long(flag);
    if knob.takes == KnobArgument::Bool {
        return arg.action(ArgAction::SetTrue).help(knob.help);
    }
    let default = knob.default.map_or(String::new(), |default| {
        format!(" [default: {}]", default.trim_matches('"'))
    });
    let action = match knob.takes {
        KnobArgument::Values => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let unit = knob.unit.trim_start_matches("a list of ");
    arg.action(action)
        .value_name("VALUE")
        .required(REQUIRED.contains(&knob.name))
        .help(format!("{}: {unit}{default}", knob.help))
}

/// The option of a knob that no longer exists. Its error tells the user so.
fn retired_option(retired: &'static RetiredKnob) -> Arg {
    Arg::new(retired.name)
        .long(retired.flag)
        .action(ArgAction::SetTrue)
        .hide(true)
}

impl Args for AddArgs {
    fn augment_args(command: Command) -> Command {
        let name = Arg::new("name")
            .required(true)
            .value_name("NAME")
            .value_parser(|text: &str| text.parse::<DiskName>())
            .help("Its name, and its name as an NBD export");
        let temporary = Arg::new("temporary")
            .long("temporary")
            .action(ArgAction::SetTrue)
            .help("Only until the daemon ends");
        let command = command.after_help(AFTER_HELP).arg(name);
        let command = knobs().map(option).fold(command, Command::arg);
        let retired = RETIRED_KNOBS.iter().map(retired_option);
        let command = retired.fold(command, Command::arg);
        AdminOptions::augment_args(command.arg(temporary))
    }

    fn augment_args_for_update(command: Command) -> Command {
        AddArgs::augment_args(command)
    }
}

impl FromArgMatches for AddArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AddArgs, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingRequiredArgument);
        let name = matches.get_one::<DiskName>("name");
        if let Some(retired) = RETIRED_KNOBS
            .iter()
            .find(|knob| matches.get_flag(knob.name))
        {
            let what = format!(
                "--{} is a retired option; leave it out: {}\n",
                retired.flag, retired.instead
            );
            return Err(clap::Error::raw(
                clap::error::ErrorKind::UnknownArgument,
                what,
            ));
        }
        let said = knobs().filter_map(|(knob, _)| Some((knob.name, words(knob, matches)?)));
        Ok(AddArgs {
            name: name.cloned().ok_or_else(missing)?,
            said: said.collect(),
            lasts: TemporaryFlag {
                temporary: matches.get_flag("temporary"),
            }
            .lasts(),
            create: false,
            daemon: AdminOptions::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AddArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for CreateArgs {
    fn augment_args(command: Command) -> Command {
        let command = AddArgs::augment_args(command).after_help(AFTER_CREATE_HELP);
        command
            .mut_arg("size", |size| size.required(true))
            .mut_arg("backing", |backing| {
                backing.help("Where the image is made: the path of a file that is not there")
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        CreateArgs::augment_args(command)
    }
}

impl FromArgMatches for CreateArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<CreateArgs, clap::Error> {
        let add = AddArgs::from_arg_matches(matches)?;
        Ok(CreateArgs(AddArgs {
            create: true,
            ..add
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = CreateArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn words(knob: &Knob<WrittenDisk>, matches: &ArgMatches) -> Option<OptionWords> {
    if knob.takes == KnobArgument::Bool {
        return matches.get_flag(knob.name).then_some(OptionWords::Yes);
    }
    let given = matches.get_many::<String>(knob.name)?;
    let mut given: Vec<String> = given.map(|word| from_here(knob.takes, word)).collect();
    match knob.takes {
        KnobArgument::Values => Some(OptionWords::Many(given)),
        _ => given.pop().map(OptionWords::One),
    }
}

/// Resolves a path from the current folder, because the daemon runs in another one.
fn from_here(takes: KnobArgument, word: &str) -> String {
    let path =
        |path: &str| absolute(path).map_or(path.to_owned(), |path| path.display().to_string());
    match (takes, word.parse()) {
        (KnobArgument::Path, _) => path(word),
        (KnobArgument::Values, Ok(DiskListen::Unix(at))) => DiskListen::Unix(path(&at)).to_string(),
        (KnobArgument::Values, Ok(DiskListen::VhostUser(at))) => {
            DiskListen::VhostUser(path(&at)).to_string()
        }
        _ => word.to_owned(),
    }
}

impl AddArgs {
    /// The request. It fails before the daemon is asked if the options make no sense by themselves.
    pub(super) fn disk(&self) -> Result<AddDisk, Exit> {
        let mut unused = WrittenDisk::defaults();
        for (knob, flag) in knobs() {
            if let Some(words) = self.said.get(knob.name) {
                let taken = (knob.set)(&mut unused, &words.to_config_words());
                taken.map_err(|unfit| Exit::usage(format_args!("--{flag}: {unfit}")))?;
            }
        }
        let said = self.said.iter();
        Ok(AddDisk {
            name: self.name.clone(),
            lasts: self.lasts,
            create: self.create,
            said: said
                .map(|(key, words)| ((*key).to_owned(), words.value()))
                .collect(),
        })
    }
}

impl OptionWords {
    fn to_config_words(&self) -> RawValue {
        match self {
            OptionWords::Yes => RawValue::Bool(true),
            OptionWords::One(word) => RawValue::Text(word.clone()),
            OptionWords::Many(words) => RawValue::List(words.clone()),
        }
    }

    fn value(&self) -> Value {
        match self {
            OptionWords::Yes => true.into(),
            OptionWords::One(word) => word.as_str().into(),
            OptionWords::Many(words) => words.clone().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_option_is_refused_with_a_word_on_it() {
        let command = AddArgs::augment_args(Command::new("add"));
        let said = ["add", "db", "--tenant=t", "--listen=unix:/s", "--splice"];
        let matches = command.get_matches_from(said);
        let refused = AddArgs::from_arg_matches(&matches).err().expect("refused");
        let refused = refused.to_string();
        assert!(
            refused.contains("--splice is a retired option"),
            "{refused}"
        );
    }
}
